//go:build !kube133 && !kube134 && !kube135

package conformance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/conformance/oracle"
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

var resizesWanted = flag.Int("resizes", 1000, "resizes to compare")

// TestResizes compares the engine's predictions of resizes with the genuine allocation manager, on
// random nodes.
func TestResizes(t *testing.T) {
	seen := map[string]int{}
	resizes := 0
	for seed := *firstSeed; resizes < *resizesWanted; seed++ {
		n := newResizeNode(t, seed)
		for range 20 {
			if n.rng.IntN(3) == 0 || len(n.pods) == 0 {
				n.add()
				continue
			}
			seen[n.resize()]++
			resizes++
		}
		if err := n.kubelet.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d resizes: %v", resizes, seen)
	for _, what := range []string{"proceeds", "deferred: Node", "infeasible: Resize is infeasible for Guaranteed Pods alongside CPU", "infeasible: Resize is infeasible for Guaranteed Pods alongside Memory", "infeasible: In-place"} {
		found := 0
		for got, count := range seen {
			if strings.HasPrefix(got, what) {
				found += count
			}
		}
		if found == 0 {
			t.Errorf("none is %q", what)
		}
	}
}

// resizeNode is one node, with the genuine managers and the engine's state.
type resizeNode struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	kubelet *oracle.Resizer
	state   *placement.State
	all     amounts.List
	// pods are the admitted pods in the API.
	pods []*corev1.Pod
	next int
}

const gib = 1 << 30

func newResizeNode(t *testing.T, seed uint64) *resizeNode {
	n := &resizeNode{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1))}
	one := func(of ...string) string { return of[n.rng.IntN(len(of))] }
	c := &cases.Case{ID: fmt.Sprint(seed), Config: cases.Config{
		CPUManagerPolicy: one("none", "static", "static"), MemoryManagerPolicy: one("None", "None", "Static"),
		TopologyManagerPolicy: one("none", "best-effort", "restricted", "single-numa-node"), TopologyManagerScope: one("container", "pod"),
		ReservedSystemCPUs: "0,1",
	}}
	cpu := 0
	for id := range 1 + n.rng.IntN(2) {
		node := cases.Node{ID: topology.NUMAID(id), Memory: 8 * gib, Distances: []uint64{10, 21}}
		for core := range 4 {
			node.Cores = append(node.Cores, cases.Core{ID: id*4 + core, Socket: id, Threads: []topology.CPUID{topology.CPUID(cpu), topology.CPUID(cpu + 1)}})
			cpu += 2
		}
		c.Machine.Nodes = append(c.Machine.Nodes, node)
	}
	for i := range c.Machine.Nodes {
		if d := c.Machine.Nodes[i].Distances; i == 1 {
			d[0], d[1] = d[1], d[0]
		}
	}
	if len(c.Machine.Nodes) == 1 {
		c.Machine.Nodes[0].Distances = []uint64{10}
	}
	if c.Config.MemoryManagerPolicy == "Static" {
		c.Config.ReservedMemory = []cases.ReservedMemory{{NUMANode: 0, Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}}
	}
	if c.Config.CPUManagerPolicy == "static" && n.rng.IntN(2) == 0 {
		c.Config.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "true"}
	}
	allocatable := corev1.ResourceList{"cpu": *resource.NewQuantity(int64(cpu-2), resource.DecimalSI), "pods": resource.MustParse("110"),
		"memory": *resource.NewQuantity(int64(len(c.Machine.Nodes))*8*gib-gib, resource.BinarySI)}
	n.all = wire.ReadResources(allocatable)
	var err error
	n.kubelet, err = oracle.NewResizer(c, t.TempDir(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable}})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	view, err := c.Machine.View()
	if err != nil {
		t.Fatal(err)
	}
	config, err := c.Config.Placement(oracle.Version)
	if err != nil {
		t.Fatal(err)
	}
	model, err := placement.NewModel(view, config)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	n.state = model.NewState()
	return n
}

// size draws the resources of a container.
func (n *resizeNode) size(guaranteed bool) corev1.ResourceRequirements {
	milli := int64(1+n.rng.IntN(6)) * 1000
	if n.rng.IntN(4) == 0 {
		milli += 500
	}
	list := corev1.ResourceList{"cpu": *resource.NewMilliQuantity(milli, resource.DecimalSI), "memory": *resource.NewQuantity(int64(1+n.rng.IntN(4))*gib, resource.BinarySI)}
	if guaranteed {
		return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	}
	return corev1.ResourceRequirements{Requests: list}
}

// add adds a pod.
func (n *resizeNode) add() {
	n.t.Helper()
	n.next++
	guaranteed, always := n.rng.IntN(4) > 0, corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", n.next), Namespace: "d", UID: types.UID(fmt.Sprint("p", n.next))},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "a", Resources: n.size(guaranteed)}}}}
	switch n.rng.IntN(4) {
	case 0:
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "b", Resources: n.size(guaranteed)})
	case 1:
		pod.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: &always, Resources: n.size(guaranteed)}}
	case 2:
		pod.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: n.size(guaranteed)}}
	}
	pod.Status.QOSClass = corev1.PodQOSBurstable
	if guaranteed {
		pod.Status.QOSClass = corev1.PodQOSGuaranteed
	}
	asked, sum := n.read(pod), n.sums(pod)
	var d placement.Decision
	v := placement.Decide(n.state, asked, &d)
	n.state.Commit(asked, &d)
	want := v.OK() && fits(sum[0]) && fits(sum[1])
	ok, reason, message := n.kubelet.Add(pod)
	if ok != want {
		n.t.Fatalf("seed %d: %s: admitted %t (%s: %s), foretold %t: %+v %+v", n.seed, pod.Name, ok, reason, message, want, v, sum)
	}
	if !ok {
		n.state.Release(string(pod.UID))
		return
	}
	n.pods = append(n.pods, pod)
}

func fits(s placement.ResizeSum) bool { return s.Asked <= s.Allocatable-s.Others }

// resize changes the amounts of a pod, and returns the outcome.
func (n *resizeNode) resize() string {
	n.t.Helper()
	at := n.rng.IntN(len(n.pods))
	pod := n.pods[at].DeepCopy()
	had := n.kubelet.Allocated(pod.DeepCopy())
	if n.rng.IntN(4) > 0 { // no second resize while one is pending
		pod = had.DeepCopy()
	}
	pod.Generation++
	guaranteed := pod.Status.QOSClass == corev1.PodQOSGuaranteed
	list := pod.Spec.Containers
	if len(pod.Spec.InitContainers) > 0 && n.rng.IntN(2) == 0 {
		list = pod.Spec.InitContainers
	}
	c := &list[n.rng.IntN(len(list))]
	now := n.size(guaranteed)
	for _, keep := range [][]corev1.ResourceName{{corev1.ResourceCPU}, {corev1.ResourceMemory}, nil}[n.rng.IntN(3)] {
		now.Requests[keep] = c.Resources.Requests[keep]
		if guaranteed {
			now.Limits[keep] = c.Resources.Limits[keep]
		}
	}
	c.Resources = now
	swaps := !guaranteed && n.rng.IntN(4) == 0
	sum := n.sums(pod)
	want := n.state.Resize(&placement.Resize{Had: n.read(had), Wants: n.read(pod), Swaps: swaps, MilliCPU: sum[0], Memory: sum[1]})
	pending := n.kubelet.Resize(pod, swaps)
	n.pods[at] = pod
	got := placement.ResizeAnswer{}
	if pending != nil {
		got.Outcome = map[string]placement.ResizeOutcome{corev1.PodReasonDeferred: placement.ResizeDeferred, corev1.PodReasonInfeasible: placement.ResizeInfeasible}[pending.Reason]
		got.Message = pending.Message
	}
	if want.Outcome == placement.ResizeRejected { // the API server would reject it; the kubelet compares the sum
		want.Outcome, want.Message = got.Outcome, got.Message
	}
	if got.Outcome != want.Outcome || got.Message != want.Message && !strings.HasPrefix(want.Message, "SMTAlignmentError: ") {
		n.t.Fatalf("seed %d: %s: the kubelet %v, foretold %v (%+v)\nhad   %+v\nwants %+v", n.seed, pod.Name, got, want, sum, n.read(had), n.read(pod))
	}
	if kept := n.read(n.kubelet.Allocated(pod)); got.Outcome != placement.ResizeProceeds && fmt.Sprint(kept) != fmt.Sprint(n.read(had)) {
		n.t.Fatalf("seed %d: %s: refused, and the kubelet has allocated %v", n.seed, pod.Name, kept)
	}
	what, _, _ := strings.Cut(want.Message, ",")
	return want.Outcome.String() + ": " + what
}

func (n *resizeNode) read(pod *corev1.Pod) *placement.Request {
	ask, err := wire.ReadPod(pod)
	if err != nil {
		n.t.Fatal(err)
	}
	return &ask.Request
}

// sums returns CPU and memory of the pod, and the allocated amounts of the other pods.
func (n *resizeNode) sums(pod *corev1.Pod) [2]placement.ResizeSum {
	asked := wire.ReadAmounts(pod)
	out := [2]placement.ResizeSum{{Asked: asked[amounts.CPU], Allocatable: n.all[amounts.CPU]}, {Asked: asked[amounts.Memory], Allocatable: n.all[amounts.Memory]}}
	for _, other := range n.pods {
		if other.UID != pod.UID {
			has := wire.ReadAmounts(n.kubelet.Allocated(other))
			out[0].Others += has[amounts.CPU]
			out[1].Others += has[amounts.Memory]
		}
	}
	return out
}
