package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// cluster has nodes of several kinds, whose kubelets are the engine and report at once. It plays
// scheduling cycles in which the plugin meets other plugins.
type cluster struct {
	*fixture
	rng   *rand.Rand
	nodes []*clusterNode
	// sample is how many feasible nodes a cycle looks for. next is the node at which the next cycle
	// starts.
	sample, next int
	// others returns the sum of all other plugins' weighted scores of a node.
	others func(pod *corev1.Pod, n *clusterNode) int64
	placed int
}

type clusterNode struct {
	infoOf
	spec  wire.NodeSpec
	model *placement.Model
	state *placement.State
	seq   int64
	pods  []string
	// used is the sum of the CPUs that pods request, which LeastAllocated reads.
	used int64
}

const gpuName = "nvidia.com/gpu"

// kindsOfNodes has every policy, and one kind with devices.
func kindsOfNodes(t testing.TB) []wire.NodeSpec {
	t.Helper()
	config := func(policy, reserved string) placement.Config {
		return placement.Config{CPUManagerPolicy: "static", TopologyManagerPolicy: policy, ReservedSystemCPUs: reserved}
	}
	var out []wire.NodeSpec
	for _, k := range []struct {
		machine string
		config  placement.Config
	}{
		{shapes.Xeon6230, config("single-numa-node", "0-1,40-41")},
		{shapes.EPYC7451, config("restricted", "0,48")},
		{shapes.GPUServer, config("single-numa-node", "0,32,64,96")},
		{shapes.EPYC7451, config("best-effort", "0,48")},
		{shapes.Xeon6130, config("none", "0")},
		{shapes.Kunpeng920, config("restricted", "0")},
		{shapes.Xeon6130, placement.Config{CPUManagerPolicy: "none", TopologyManagerPolicy: "best-effort"}},
	} {
		m := shapes.Machine(k.machine)
		view := made.View(t, m)
		out = append(out, wire.NodeSpec{Machine: m, View: view, Config: k.config, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3"})
	}
	return out
}

func newCluster(t testing.TB, count int, seed uint64) *cluster {
	c := &cluster{fixture: newFixture(t), rng: rand.New(rand.NewPCG(seed, 5)), sample: count}
	c.others = func(*corev1.Pod, *clusterNode) int64 { return 0 }
	kinds := kindsOfNodes(t)
	for i := range count {
		n := &clusterNode{infoOf: nodeObject(fmt.Sprint("n", i)), spec: kinds[i%len(kinds)]}
		config := n.spec.Config
		config.GuardDefects = true
		model := made.ModelOf(t, n.spec.View, config)
		n.model, n.state = model, model.NewState()
		if len(n.spec.Machine.Devices) > 0 {
			n.state.SetPool(gpus(n.spec.Machine))
		}
		c.nodes = append(c.nodes, n)
		c.report(n)
	}
	return c
}

func gpus(m *topology.Machine) placement.DevicePool {
	p := placement.DevicePool{Resource: gpuName, Preference: placement.SortedPreference}
	for i := range m.Devices {
		if d := &m.Devices[i]; d.Class[:2] == "03" {
			p.Devices = append(p.Devices, placement.Device{ID: fmt.Sprint("gpu-", len(p.Devices)), HasTopology: true, NUMA: topology.NewNUMASet(d.NUMA)})
		}
	}
	return p
}

// report gives the plugin the node's state.
func (c *cluster) report(n *clusterNode) {
	c.Helper()
	n.seq++
	r := wire.Report{Sequence: n.seq, Snapshot: n.state.Snapshot(), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reported"}}}
	r.Pods = make([]wire.ReportedPod, len(r.Snapshot.Pods))
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: n.object.Name, Spec: n.spec, Report: r})
	if err != nil {
		c.Fatal(err)
	}
	nt.UID = types.UID("nt-" + n.object.Name)
	c.feed.ReportSeen(nt)
}

// feasible asks the nodes in turn, as kube-scheduler does, until enough of them pass Filter.
func (c *cluster) feasible(state fwk.CycleState, pod *corev1.Pod) (found []*clusterNode) {
	seen := 0
	for ; seen < len(c.nodes) && len(found) < c.sample; seen++ {
		n := c.nodes[(c.next+seen)%len(c.nodes)]
		if n.hasAmounts(pod) && c.Filter(c.Context(), state, pod, n.infoOf).IsSuccess() {
			found = append(found, n)
		}
	}
	c.next = (c.next + seen) % len(c.nodes)
	return found
}

// hasAmounts is the part of NodeResourcesFit that matters here: if a node does not have a resource,
// Berth leaves the refusal to that plugin.
func (n *clusterNode) hasAmounts(pod *corev1.Pod) bool {
	_, asks := pod.Spec.Containers[0].Resources.Limits[gpuName]
	return !asks || len(n.spec.Machine.Devices) > 0
}

// choose adds the scores as the framework does, with the weights of Configuration.
func (c *cluster) choose(state fwk.CycleState, pod *corev1.Pod, from []*clusterNode) *clusterNode {
	tiers := make(fwk.NodeScoreList, len(from))
	infos := make([]fwk.NodeInfo, len(from))
	for i, n := range from {
		infos[i] = n.infoOf
		tiers[i].Score, _ = Tiers{}.Score(c.Context(), state, pod, n.infoOf)
	}
	skip := Tiers{}.PreScore(c.Context(), state, pod, infos).IsSkip()
	if same := !slices.ContainsFunc(tiers, func(s fwk.NodeScore) bool { return s.Score != tiers[0].Score }); skip != same {
		c.Fatalf("%d nodes of one tier: %t, and Score is spared: %t", len(from), same, skip)
	}
	Tiers{}.NormalizeScore(c.Context(), state, pod, tiers)
	best, most := -1, int64(-1)
	for i, n := range from {
		own, _ := c.Score(c.Context(), state, pod, n.infoOf)
		if sum := TiersWeight*tiers[i].Score + Weight*own + c.others(pod, n); sum > most {
			best, most = i, sum
		}
	}
	return from[best]
}

// place puts the pod on the chosen node and makes its kubelet admit the pod. It fails the test if
// another node of the sample would have admitted the pod on fewer NUMA nodes. It returns nil if no
// node admits the pod.
func (c *cluster) place(pod *corev1.Pod) *clusterNode {
	c.Helper()
	request := requestOf(c.TB, pod)
	cyc := c.attempt(pod, request)
	cyc.way.(*alone).patient = false
	state := newCycleData()
	state.Write(cycleKey, cyc)
	found := c.feasible(state, pod)
	if len(found) == 0 {
		return nil
	}
	n := c.choose(state, pod, found)
	c.demandFewest(request, n, found)
	c.admitOn(n, request)
	return n
}

// demandFewest asks the kubelet of every node in the sample.
func (c *cluster) demandFewest(r *placement.Request, chosen *clusterNode, found []*clusterNode) {
	c.Helper()
	fewest, where := 1000, ""
	for _, n := range found {
		if k := spreadOn(n, r); k < fewest {
			fewest, where = k, n.object.Name
		}
	}
	if got := spreadOn(chosen, r); got > fewest {
		c.Fatalf("pod %s is on %d NUMA nodes of %s, %s would have taken it on %d", r.UID, got, chosen.object.Name, where, fewest)
	}
}

// spreadOn returns on how many NUMA nodes the kubelet would place the pod: all if it does not pin
// CPUs.
func spreadOn(n *clusterNode, r *placement.Request) int {
	v := placement.Admit(n.state, r)
	switch {
	case !v.OK():
		return 1000
	case n.spec.Config.CPUManagerPolicy == "none":
		return len(n.spec.Machine.NUMANodes)
	}
	return v.NUMA.Len()
}

// admitOn binds the pod to the node: the ledger decides as Reserve and Bind do, and the kubelet
// admits the pod and reports.
func (c *cluster) admitOn(n *clusterNode, r *placement.Request) {
	c.Helper()
	var d placement.Decision
	own := c.table.Named(n.object.Name).Account()
	candidate := c.table.Candidate(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(500, 0)}}, r)
	if a := own.Reserve(&candidate, &d); !a.OK() {
		c.Fatalf("%s: %+v", r.UID, a)
	}
	if _, err := own.Post(r.UID, &d); err != nil {
		c.Fatal(err)
	}
	c.waiters.Done(r.UID)
	if v := placement.Decide(n.state, r, &d); !v.OK() {
		c.Fatalf("%s: %+v", r.UID, v)
	}
	n.state.Commit(r, &d)
	n.pods, n.used = append(n.pods, r.UID), n.used+int64(r.CPUs())
	c.placed++
	c.report(n)
}

// end removes a pod.
func (c *cluster) end(n *clusterNode, i int, cpus int64) {
	c.table.Named(n.object.Name).Account().Gone(n.pods[i], c.clock.Now())
	n.state.Release(n.pods[i])
	n.pods, n.used = slices.Delete(n.pods, i, i+1), n.used-cpus
	c.report(n)
}

func (c *cluster) pod(cpus, gpus int64) *corev1.Pod {
	p := pinned(fmt.Sprint("p", c.placed, "-", c.rng.Uint32()), cpus)
	if gpus > 0 {
		p.Spec.Containers[0].Resources.Limits[gpuName] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return p
}

// leastAllocated is kube-scheduler's default score for the CPUs.
func leastAllocated(_ *corev1.Pod, n *clusterNode) int64 {
	all := int64(n.spec.Machine.Online.Len())
	return 100 * (all - min(all, n.used)) / all
}

// churn places pods. When the nodes are three quarters full, it ends one pod for each new one.
func (c *cluster) churn(placements int) {
	c.Helper()
	type place struct {
		n    *clusterNode
		uid  string
		cpus int64
	}
	var live []place
	for refused := 0; c.placed < placements; {
		pod := c.pod([]int64{1, 2, 3, 4, 8, 12, 16, 20, 24, 30, 48}[c.rng.IntN(11)], []int64{0, 0, 0, 0, 1, 2}[c.rng.IntN(6)])
		n := c.place(pod)
		if n == nil {
			if refused++; refused > 20*placements {
				c.Fatal("hardly any pod is placed")
			}
		} else {
			live = append(live, place{n, string(pod.UID), int64(requestOf(c.TB, pod).CPUs())})
		}
		if n == nil || len(live) > 5*len(c.nodes) {
			i := c.rng.IntN(len(live))
			l := live[i]
			live = slices.Delete(live, i, i+1)
			c.end(l.n, slices.Index(l.n.pods, l.uid), l.cpus)
		}
	}
}

// TestFewestNUMANodes places random pods next to plugins with random preferences. No node in the
// sample would have admitted a pod on fewer NUMA nodes.
func TestFewestNUMANodes(t *testing.T) {
	for _, tc := range []struct {
		name               string
		nodes, sample, pod int
		others             func(c *cluster) func(*corev1.Pod, *clusterNode) int64
	}{
		{"LeastAllocated", 14, 14, 2000, func(*cluster) func(*corev1.Pod, *clusterNode) int64 { return leastAllocated }},
		{"anything, with great weights", 14, 14, 500, func(c *cluster) func(*corev1.Pod, *clusterNode) int64 {
			return func(*corev1.Pod, *clusterNode) int64 { return c.rng.Int64N(TiersWeight) }
		}},
		// kube-scheduler looks for 47 percent of 300 nodes (50 - 300/125).
		{"300 nodes, default sampling, preferred affinity", 300, 141, 2000, func(c *cluster) func(*corev1.Pod, *clusterNode) int64 {
			return func(pod *corev1.Pod, n *clusterNode) int64 {
				affinity := int64(0)
				if (len(pod.Name)+len(n.object.Name))%2 == 0 {
					affinity = 200
				}
				return affinity + leastAllocated(pod, n)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, tc.nodes, 1)
			c.sample = tc.sample
			c.others = tc.others(c)
			c.churn(tc.pod)
		})
	}
}

// TestDevicesKeepTheirCPUs fills the cluster with pods without devices. Afterwards, every device
// still has CPUs.
func TestDevicesKeepTheirCPUs(t *testing.T) {
	c := newCluster(t, 14, 1)
	c.others = leastAllocated
	for range 24 {
		if n := c.place(c.pod(16, 0)); n == nil || len(n.spec.Machine.Devices) > 0 {
			t.Fatalf("a pod without devices is on %v, while other nodes have room", n)
		}
	}
	for i := range 16 { // two nodes of 8
		n := c.place(c.pod(12, 1))
		if n == nil {
			t.Fatalf("GPU pod %d of 16 is on no node", i)
		}
	}
}

// TestFewDevicesKeepAwayFromMany: a pod with one GPU goes to a NUMA node with one free GPU, so that
// four free GPUs stay together.
func TestFewDevicesKeepAwayFromMany(t *testing.T) {
	c := newCluster(t, 14, 1)
	c.others = leastAllocated
	first := c.place(c.pod(4, 3))
	if second := c.place(c.pod(4, 1)); second != first {
		t.Errorf("three GPUs were taken on %s, the single one on %s", first.object.Name, second.object.Name)
	}
	for range 3 {
		if n := c.place(c.pod(4, 4)); n == nil {
			t.Fatal("four GPUs did not stay together")
		}
	}
}

// TestWhatOthersDecide: among nodes with equal NUMA nodes, devices and policy, the pod's own
// preference decides. Without a preference, the node with the smaller free block is chosen, against
// LeastAllocated.
func TestWhatOthersDecide(t *testing.T) {
	for _, tc := range []struct {
		name     string
		affinity int64 // for the empty node
		want     string
	}{{"fit", 0, "n0"}, {"preferred affinity", 200, "n7"}} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, 14, 1) // n0 and n7 are equal
			c.admitOn(c.nodes[0], requestOf(t, c.pod(8, 0)))
			c.others = func(pod *corev1.Pod, n *clusterNode) int64 {
				switch n.object.Name {
				case "n0":
					return leastAllocated(pod, n)
				case "n7":
					return tc.affinity + leastAllocated(pod, n)
				}
				return -1000
			}
			if n := c.place(c.pod(4, 0)); n == nil || n.object.Name != tc.want {
				t.Errorf("got %s, want %s", n.object.Name, tc.want)
			}
		})
	}
}
