package e2e

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// simulated runs a load on a cluster, and the same load on the same nodes in the simulator.
//
// Pods that come one by one are judged one by one. Each waits until the one before it runs and is
// reported, or is refused, so that timing has no effect. Before each pod, the simulator computes
// the nodes among which the scheduler may choose at random. If there are none, the pod must be
// refused. Otherwise the pod must get one of these nodes, and the NUMA nodes, CPUs and GPUs of the
// simulator's kubelet. The simulator then continues with the chosen node, so that a random choice
// is no difference.
//
// Pods that come at once are judged by their sums. No kubelet may refuse one. The served and
// aligned parts and the NUMA nodes per pod must be within the bounds below of the simulator's
// results for some seeds, each with its own order of arrival.
type simulated struct {
	*hollowCluster
	nodes []trace.Node
	pods  []trace.Pod
	// experiment has nodes and pods under the overlay, and the strategy of the scheduler.
	experiment simulate.Experiment
}

// The bounds for pods that come at once: in percent of all requested CPUs, and in NUMA nodes per
// pod.
const (
	boundServed = 4.0
	boundNUMA   = 0.06
	burstSeeds  = 5
)

// gpuName is the resource name of the nodes' GPUs, here and in the simulator.
const gpuName = "nvidia.com/gpu"

// TestSimulatedLikePlayed runs 60 pods on three nodes one by one.
func TestSimulatedLikePlayed(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, 3, 60, 1, 2, 2, "restricted")
	s.oneByOne()
	s.demandKept()
}

// TestSimulatedBurst runs 500 pods on twelve nodes, one by one and then at once.
func TestSimulatedBurst(t *testing.T) {
	slowScene(t)
	s := newSimulated(t, 12, 500, 2, 2, 1, "restricted")
	s.oneByOne()
	s.clean()
	s.atOnce()
	s.demandKept()
}

func newSimulated(t *testing.T, nodes, pods int, seed int64, packages, perPackage int, policy string) *simulated {
	t.Helper()
	s := &simulated{}
	s.draw(nodes, pods, rand.New(rand.NewSource(seed)))
	laid := make([]simulate.StartNode, nodes)
	for i := range s.nodes {
		laid[i] = startNode(t, &s.nodes[i], packages, perPackage, policy)
	}
	start, err := simulate.NewStart(laid)
	if err != nil {
		t.Fatal(err)
	}
	ground := func(_ []trace.Node, blind bool) simulate.Cluster { return start.Ground(start.Nodes(), blind) }
	strategies, err := simulate.StrategiesOf(simulate.Strategies(), "BerthProfile")
	if err != nil {
		t.Fatal(err)
	}
	s.experiment = simulate.Experiment{Nodes: s.nodes, Pods: s.pods, Ground: ground, Strategies: strategies}
	next := 0
	s.hollowCluster = newHollowClusterOn(t, nodes, controlplane.Options{Dir: shortDir(t)}, func(spec *hollow.Spec) {
		below(&laid[next], &s.nodes[next], policy, spec)
		next++
	})
	s.warmUp()
	return s
}

// draw makes nodes, and pods that ask for more than the nodes have.
func (s *simulated) draw(nodes, pods int, rng *rand.Rand) {
	cpus := int64(0)
	for i := range nodes {
		size := int64(2 + i%3)
		s.nodes = append(s.nodes, trace.Node{Name: fmt.Sprint("h", i), MilliCPU: 32_000 * size, MiB: 131_072 * size, GPUs: 4 * (i % 3)})
		cpus += 32 * size
	}
	mean := max(1, cpus*5/4/int64(pods))
	for i := range pods {
		p := trace.Pod{Name: fmt.Sprintf("p%03d", i), MilliCPU: 1000 * (1 + rng.Int63n(2*mean)), MiB: 512 * (1 + rng.Int63n(12))}
		if rng.Intn(5) == 0 {
			p.GPUs, p.MilliGPU = 1+rng.Intn(2), trace.Thousandths
		}
		s.pods = append(s.pods, p)
	}
}

// keptMiB is the memory that the system reserves on the first NUMA node, in addition to the first
// core.
const keptMiB = 1024

// startNode returns an empty node of the list, with a machine and a kubelet. Its GPUs are divided
// evenly.
func startNode(t *testing.T, n *trace.Node, packages, perPackage int, policy string) simulate.StartNode {
	t.Helper()
	numa := packages * perPackage
	dist := "10,21"
	if perPackage > 1 {
		dist = "10,12,21"
	}
	m, err := topology.Parse(fmt.Sprintf("package:%d numa:%d core:%d pu:2 mem:%dMi dist:%s", packages, perPackage, int(n.MilliCPU)/2000/numa, n.MiB/int64(numa), dist))
	if err != nil {
		t.Fatal(err)
	}
	view, err := placement.ViewOf(m)
	if err != nil {
		t.Fatal(err)
	}
	model, err := placement.NewModel(view, placement.Config{CPUManagerPolicy: "static", MemoryManagerPolicy: "Static", TopologyManagerPolicy: policy,
		ReservedSystemCPUs: m.Cores[0].CPUs.String(), GuardDefects: true,
		ReservedMemory: []placement.ReservedMemory{{NUMA: m.NUMANodes[0].ID, Limits: map[string]uint64{"memory": keptMiB << 20}}}})
	if err != nil {
		t.Fatal(err)
	}
	pool := placement.DevicePool{Resource: gpuName, Preference: placement.SortedPreference}
	for gpu := range n.GPUs {
		at := m.NUMANodes[gpu*numa/n.GPUs].ID
		pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprintf("%02d", gpu), HasTopology: true, NUMA: topology.NewNUMASet(at)})
	}
	out := simulate.StartNode{Node: *n, Machine: m, Model: model, State: model.NewState()}
	out.State.SetPool(pool)
	out.MilliCPU, out.MiB = n.MilliCPU-int64(m.Cores[0].CPUs.Len())*trace.Thousandths, n.MiB-keptMiB
	return out
}

// below gives a hollow node the machine and the kubelet of a node of the simulator.
func below(laid *simulate.StartNode, n *trace.Node, policy string, spec *hollow.Spec) {
	m := laid.Machine
	spec.Machine, spec.MaxPods = m.String(), 250
	spec.KubeletConfig = fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: %s
reservedSystemCPUs: %q
systemReserved: {memory: 924Mi}
reservedMemory: [{numaNode: %d, limits: {memory: 1024Mi}}]
`, policy, m.Cores[0].CPUs.String(), m.NUMANodes[0].ID)
	if n.GPUs == 0 {
		return
	}
	plugin := hollow.Plugin{Resource: gpuName, Prefer: true}
	for gpu := range n.GPUs {
		at := m.NUMANodes[gpu*len(m.NUMANodes)/n.GPUs].ID
		plugin.Devices = append(plugin.Devices, hollow.Device{ID: fmt.Sprintf("%02d", gpu), NUMA: []topology.NUMAID{at}})
	}
	spec.Plugins = []hollow.Plugin{plugin}
}

// asked returns a pod of the list as an API object.
func asked(p *trace.Pod) *corev1.Pod {
	limits := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(p.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(p.MiB<<20, resource.BinarySI),
	}
	if p.GPUs > 0 {
		limits[gpuName] = *resource.NewQuantity(int64(p.GPUs), resource.DecimalSI)
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: "default"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "berth.dev/demo:1", Resources: corev1.ResourceRequirements{Requests: limits, Limits: limits}}},
	}}
}

// oneByOne creates pod after pod.
func (s *simulated) oneByOne() {
	follower, names := s.experiment.Follow(&s.experiment.Strategies[0]), map[string]int{}
	for i := range s.nodes {
		names[s.nodes[i].Name] = i
	}
	refused, one, differ := 0, 0, 0
	for i := range s.pods {
		s.create(asked(&s.pods[i]))
		pod, choices := s.settled(s.pods[i].Name), follower.Choices(i)
		if pod.Spec.NodeName == "" {
			refused++
			if len(choices) > 0 {
				differ++
				s.Errorf("%s waits, and the simulator puts it on one of %v: %s", pod.Name, s.named(choices), unschedulable([]corev1.Pod{*pod}, pod.Name))
			}
			s.delete(pod.Name, new(int64))
			continue
		}
		if len(choices) == 1 {
			one++
		}
		at := names[pod.Spec.NodeName]
		if !slices.Contains(choices, at) {
			differ++
			s.Errorf("%s is on %s, and the simulator puts it on one of %v", pod.Name, pod.Spec.NodeName, s.named(choices))
		}
		got, want := follower.Put(at, i)
		if why := s.otherwise(pod, got, want); why != "" {
			differ++
			s.Errorf("%s on %s: %s", pod.Name, pod.Spec.NodeName, why)
		}
		if differ > 10 {
			s.Fatal("and more")
		}
	}
	s.Logf("%d pods: %d refused, %d with one node to choose, %d with several equal ones", len(s.pods), refused, one, len(s.pods)-refused-one)
	if refused == 0 || one == 0 {
		s.Error("want pods that are refused, and pods with one node to choose: the load says too little")
	}
}

func (s *simulated) named(nodes []int) (names []string) {
	for _, i := range nodes {
		names = append(names, s.nodes[i].Name)
	}
	return names
}

// otherwise describes how the pod's resources differ from those of the simulator's kubelet.
func (s *simulated) otherwise(pod *corev1.Pod, got simulate.Outcome, want *placement.Decision) string {
	if got.Refused {
		return "the simulator's kubelet refuses it"
	}
	p, found, err := wire.ReadPlacement(pod)
	if err != nil || !found {
		return fmt.Sprintf("it has no placement: %v", err)
	}
	has, wants := &p.Decision.Containers[0], &want.Containers[0]
	if has.Hint.NUMA != wants.Hint.NUMA {
		return fmt.Sprintf("NUMA nodes %s, in the simulator %s", has.Hint.NUMA, wants.Hint.NUMA)
	}
	if p.Certainty != wire.Exact { // only its NUMA nodes are certain
		return ""
	}
	if has.CPUs != wants.CPUs {
		return fmt.Sprintf("CPUs %s, in the simulator %s", has.CPUs, wants.CPUs)
	}
	if a, b := fmt.Sprint(has.Devices, has.Memory), fmt.Sprint(wants.Devices, wants.Memory); a != b {
		return fmt.Sprintf("devices and memory %s, in the simulator %s", a, b)
	}
	return ""
}

// settled waits until the pod runs and every node has reported its pods, or until the pod is
// refused, and returns it.
func (s *simulated) settled(name string) (pod *corev1.Pod) {
	s.until(name+" to run, or to be refused", func(ctx context.Context) bool {
		var err error
		if pod, err = s.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false
		}
		return s.isRefused(pod) || pod.Status.Phase == corev1.PodRunning && s.inFlight() == 0
	})
	return pod
}

// isRefused reports whether no node admits the pod, and no node may admit it after a report.
func (s *simulated) isRefused(pod *corev1.Pod) bool {
	why := unschedulable([]corev1.Pod{*pod}, pod.Name)
	return pod.Spec.NodeName == "" && why != "" && !strings.Contains(why, "waiting ")
}

// warmUp waits until the scheduler places pods.
func (s *simulated) warmUp() {
	s.create(asked(&trace.Pod{Name: "first", MilliCPU: 1000, MiB: 512}))
	s.awaitRunning("first")
	s.delete("first", nil)
	s.await("the first pod to be gone", func(pods []corev1.Pod) bool { return len(pods) == 0 })
	s.awaitGauges()
}

// inFlight returns how many pods are not yet reported; -1 if the scheduler does not answer.
func (s *simulated) inFlight() int {
	metrics, err := s.sched.metrics()
	if err != nil {
		return -1
	}
	sum := 0.0
	for name, n := range metrics {
		if strings.HasPrefix(name, "berth_scheduler_in_flight_pods") {
			sum += n
		}
	}
	return int(sum)
}

// until polls until done returns true.
func (s *simulated) until(what string, done func(context.Context) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.demandKept()
			s.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// atOnce creates all pods at once, and judges the result.
func (s *simulated) atOnce() {
	var all sync.WaitGroup
	for i := range s.pods {
		all.Go(func() {
			if _, err := s.Client.CoreV1().Pods("default").Create(s.Context(), asked(&s.pods[i]), metav1.CreateOptions{}); err != nil {
				s.Error(err)
			}
		})
	}
	all.Wait()
	var pods []corev1.Pod
	s.await("all pods to run, or to be refused", func(list []corev1.Pod) bool {
		pods = list
		return len(list) == len(s.pods) && s.inFlight() == 0 && !slices.ContainsFunc(list, func(p corev1.Pod) bool {
			return p.Status.Phase != corev1.PodRunning && !s.isRefused(&p)
		})
	})
	s.judgeBurst(s.served(pods), s.expected())
}

// result has the served and aligned percentages of the requested CPUs, and the NUMA nodes per pod.
type result struct{ served, aligned, numa float64 }

// served sums up the resources of the cluster's pods.
func (s *simulated) served(pods []corev1.Pod) (out result) {
	all, running, numa, machines := int64(0), 0, 0, map[string]*topology.Machine{}
	for _, n := range s.hollowCluster.nodes {
		machines[n.spec.Name] = s.machineOf(n)
	}
	for i := range pods {
		cpus := pods[i].Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		if all += cpus; pods[i].Spec.NodeName == "" {
			continue
		}
		p, _, err := wire.ReadPlacement(&pods[i])
		s.must(err)
		m, on := machines[pods[i].Spec.NodeName], 0
		for j := range m.NUMANodes {
			if m.NUMANodes[j].CPUs.Intersects(&p.Decision.Containers[0].CPUs) {
				on++
			}
		}
		running, numa, out.served = running+1, numa+on, out.served+float64(cpus)
		if on == 1 { // each pod of the load fits on one NUMA node
			out.aligned += float64(cpus)
		}
	}
	return result{100 * out.served / float64(all), 100 * out.aligned / float64(all), float64(numa) / float64(max(1, running))}
}

// expected returns the simulator's results for the pods, in its own orders.
func (s *simulated) expected() (out []result) {
	s.experiment.Seeds = nil
	for seed := range int64(burstSeeds) {
		s.experiment.Seeds = append(s.experiment.Seeds, seed)
	}
	runs, err := s.experiment.Run(s.Context())
	s.must(err)
	for i := range runs {
		f := &runs[i].Figures
		all := float64(f.CPUs.Asked) / 100
		out = append(out, result{float64(f.CPUs.Served) / all, float64(f.CPUs.Aligned) / all, float64(f.NUMANodes) / float64(max(1, f.Pinned))})
	}
	return out
}

// judgeBurst compares the result with the smallest and the largest result of the seeds.
func (s *simulated) judgeBurst(got result, want []result) {
	s.Logf("at once: %+v; in the simulator: %+v", got, want)
	for _, c := range []struct {
		name  string
		of    func(*result) float64
		bound float64
	}{
		{"percent of the CPUs served", func(r *result) float64 { return r.served }, boundServed},
		{"percent of the CPUs served together", func(r *result) float64 { return r.aligned }, boundServed},
		{"NUMA nodes per pod", func(r *result) float64 { return r.numa }, boundNUMA},
	} {
		least, most := c.of(&want[0]), c.of(&want[0])
		for i := range want {
			least, most = min(least, c.of(&want[i])), max(most, c.of(&want[i]))
		}
		if v := c.of(&got); v < least-c.bound || v > most+c.bound {
			s.Errorf("%s: %.2f, and from %.2f to %.2f in the simulator: want no more than %.2f beyond", c.name, v, least, most, c.bound)
		}
	}
}
