package bench

import (
	"os"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/berth-dev/berth/test/conformance/diff"
	"github.com/berth-dev/berth/test/conformance/oracle"
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

// pair has the kubelet and the engine for a question, with equal state.
type pair struct {
	*engine
	kubelet *oracle.Live
	// policy is a policy object like the one in the kubelet.
	policy topologymanager.Policy
	pod    *corev1.Pod
}

// memoryDir is a directory in memory for checkpoints, so that the disk does not count.
func memoryDir(t testing.TB) string {
	if s, err := os.Stat("/dev/shm"); err == nil && s.IsDir() {
		return "/dev/shm"
	}
	return t.TempDir()
}

func newPair(t testing.TB, q question) *pair {
	t.Helper()
	p := &pair{engine: newEngine(t, q), pod: q.asked()}
	var err error
	if p.kubelet, err = oracle.Boot(q.machine.caseOf(q.policy), oracle.Options{Dir: memoryDir(t)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kubelet.Stop() })
	if q.half {
		for _, h := range q.machine.load() {
			if err := p.kubelet.Hold(loadPod(h), h); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.policy = policyOf(t, q)
	p.verify(t, q)
	return p
}

func policyOf(t testing.TB, q question) topologymanager.Policy {
	t.Helper()
	var nodes []cadvisorapi.Node
	for n := range q.machine.numaNodes() {
		nodes = append(nodes, cadvisorapi.Node{Id: n})
	}
	numa, err := topologymanager.NewNUMAInfo(nodes, topologymanager.PolicyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if q.policy == "restricted" {
		return topologymanager.NewRestrictedPolicy(numa, topologymanager.PolicyOptions{})
	}
	return topologymanager.NewSingleNumaNodePolicy(numa, topologymanager.PolicyOptions{})
}

// merge asks the kubelet's managers for hints and merges them. It chooses no CPUs and writes no
// checkpoint.
func (p *pair) merge() (topologymanager.TopologyHint, bool) {
	var hints []map[string][]topologymanager.TopologyHint
	for _, m := range p.kubelet.Providers() {
		hints = append(hints, m.GetTopologyHints(klog.Background(), p.pod, &p.pod.Spec.Containers[0], lifecycle.AddOperation))
	}
	return p.policy.Merge(klog.Background(), hints)
}

// verify fails the test unless the kubelet and the engine give the same answer and have equal state
// before, during and after the pod's life. A comparison of different answers would prove nothing.
func (p *pair) verify(t testing.TB, q question) {
	t.Helper()
	c := q.machine.caseOf(q.policy)
	p.sameBooks(t, "before")
	merged, ok := p.merge()
	r := p.kubelet.Admit(p.pod)
	p.decide()
	p.state.Commit(&p.request, &p.decision)
	yes := true
	want := cases.EventResult{Admitted: &r.Admit, Reason: r.Reason, Containers: p.kubelet.Holdings(p.pod)}
	got := cases.EventResult{Admitted: &yes, Containers: p.holdings(c)}
	if len(got.Containers) != 1 || got.Containers[0].CPUs == "" {
		t.Fatalf("the engine gives no CPUs: %+v", got.Containers)
	}
	for _, d := range diff.Results(&cases.Result{Events: []cases.EventResult{want}}, &cases.Result{Events: []cases.EventResult{got}}) {
		t.Fatal("the kubelet and the engine differ: ", d)
	}
	p.sameBooks(t, "with the pod")
	if hint := p.decision.Containers[0].Hint; !ok || nodesOfHint(merged) != hint.NUMA {
		t.Fatalf("the kubelet merges hints to %v, the engine to %v", nodesOfHint(merged), hint.NUMA)
	}
	p.kubelet.Remove(podID)
	p.state.Release(podID)
	p.sameBooks(t, "after")
}

func nodesOfHint(h topologymanager.TopologyHint) (nodes topology.NUMASet) {
	if h.NUMANodeAffinity == nil {
		return 0
	}
	for _, id := range h.NUMANodeAffinity.GetBits() {
		nodes = nodes.With(topology.NUMAID(id))
	}
	return nodes
}

func (p *pair) sameBooks(t testing.TB, when string) {
	t.Helper()
	want := cases.Result{Events: []cases.EventResult{{State: p.kubelet.State()}}}
	got := cases.Result{Events: []cases.EventResult{{State: p.books()}}}
	for _, d := range diff.Results(&want, &got) {
		t.Fatalf("the books differ %s: %v", when, d)
	}
}

// finishes reports whether the kubelet answers in acceptable time. It tries every combination of
// hints, and an empty machine with 8 NUMA nodes and four resources has 255 to the fourth of them.
func (q question) finishes() bool {
	return !(q.machine.name == "M8" && q.pod == "P2" && q.policy == "restricted" && !q.half)
}

// promised is the minimum factor by which the engine must be faster than the kubelet.
func (q question) promised() float64 {
	if q.machine.name == "M8" && q.pod == "P2" && q.policy == "restricted" {
		return 100_000
	}
	return 500
}

// TestEqual checks that the kubelet and the engine give the same answers to every question of the
// benchmarks.
func TestEqual(t *testing.T) {
	for _, q := range questions() {
		if q.finishes() {
			t.Run(q.String(), func(t *testing.T) { newPair(t, q) })
		}
	}
}

// BenchmarkAgainstKubelet asks the genuine managers and the engine in turn. kubelet/berth is the
// time of the kubelet's admission divided by that of Admit, which finds the same CPUs, memory and
// devices. merge/berth compares only the kubelet's hints and their merger with Admit, although
// Admit also chooses CPUs. turnover/turnover compares admission and removal, including the changes
// of state.
func BenchmarkAgainstKubelet(b *testing.B) {
	for _, q := range questions() {
		if !q.finishes() {
			continue
		}
		b.Run(q.String(), func(b *testing.B) {
			p := newPair(b, q)
			s := turns(b, func() []float64 {
				admit := timed(1, func() { p.kubelet.Admit(p.pod) })
				remove := timed(1, func() { p.kubelet.Remove(podID) })
				merge := timed(1, func() { p.merge() })
				return []float64{admit, admit + remove, merge, timed(500, p.admit), timed(200, p.turnover)}
			})
			b.ReportMetric(s.median(0), "kubelet-ns")
			b.ReportMetric(s.median(3), "berth-ns")
			b.ReportMetric(s.ratio(0, 3), "kubelet/berth")
			b.ReportMetric(s.ratio(2, 3), "merge/berth")
			atMost(b, "berth/kubelet", s.ratio(3, 0), 1/q.promised())
			b.ReportMetric(s.ratio(1, 4), "turnover/turnover")
			b.ReportMetric(testing.AllocsPerRun(1, func() { p.kubelet.Admit(p.pod); p.kubelet.Remove(podID) }), "kubelet-allocs")
			noAllocations(b, p.admit)
		})
	}
}
