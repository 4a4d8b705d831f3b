package survey

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology"
)

// noon is the time of all questions.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// world is a cluster that does not change, with the kubelets of its nodes.
type world struct {
	*testing.T
	source.Snapshot
	kubelets map[string]*sim.Kubelet
}

func newWorld(t *testing.T) *world {
	return &world{T: t, kubelets: map[string]*sim.Kubelet{}, Snapshot: source.Snapshot{Taken: noon, Where: "test", StaleAfter: "1m"}}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// nodeSpec has two NUMA nodes of 4 CPUs. The first CPU is reserved.
func (w *world) nodeSpec() wire.NodeSpec {
	m, err := topology.Parse("package:2 numa:1 core:4 pu:1 mem:16Gi dist:10,21")
	w.must(err)
	view, err := placement.ViewOf(m)
	w.must(err)
	return wire.NodeSpec{Machine: m, View: view, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
		Config: placement.Config{Version: placement.V136, CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"}}
}

// addNode makes a node with a live agent. Two minutes ago it reported the pods that its kubelet had
// admitted.
func (w *world) addNode(name string, admitted ...*corev1.Pod) *v1alpha1.NodeTopology {
	w.Helper()
	spec := w.nodeSpec()
	model, err := placement.NewModel(spec.View, spec.Config)
	w.must(err)
	k := sim.NewKubelet(model)
	w.kubelets[name] = k
	for _, pod := range admitted {
		ask, err := wire.ReadPod(pod)
		w.must(err)
		if a := k.Admit(&ask.Request); !a.Verdict.OK() {
			w.Fatalf("%s: %+v", pod.Name, a.Verdict)
		}
	}
	report := wire.Report{Sequence: 7, Observed: noon.Add(-2 * time.Minute), Snapshot: k.State.Snapshot(), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent}}}
	report.Pods = make([]wire.ReportedPod, len(report.Snapshot.Pods))
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: name, Spec: spec, Report: report})
	w.must(err)
	w.Nodes = append(w.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("10")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}})
	w.beat(name, noon.Add(-10*time.Second))
	return nt
}

// report stores a report of addNode, which the test may have changed.
func (w *world) report(nt *v1alpha1.NodeTopology) {
	w.Helper()
	data, err := json.Marshal(nt)
	w.must(err)
	w.Reports = append(w.Reports, data)
}

func (w *world) beat(node string, at time.Time) {
	renewed := metav1.NewMicroTime(at)
	w.Leases = append(w.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(node)},
		Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}})
}

// pod returns a Guaranteed pod of one container with whole CPUs.
func pod(name string, cpus int64) *corev1.Pod {
	limits := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Spec: corev1.PodSpec{SchedulerName: "berth-scheduler", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSGuaranteed},
	}
}

// bind binds a pod to a node with a promise of CPUs. Both may be "".
func (w *world) bind(p *corev1.Pod, node, cpus string) *corev1.Pod {
	w.Helper()
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	if cpus != "" {
		set, err := topology.ParseCPUList(cpus)
		w.must(err)
		text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
			Decision: placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{{
				Name: "main", CPUs: set, Hint: placement.Hint{NUMA: w.nodeSpec().Machine.NodesOf(set), Preferred: true}}}}})
		w.must(err)
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
	}
	w.Pods = append(w.Pods, p)
	return p
}

// cluster opens the world as a file of `berth snapshot`.
func (w *world) cluster() *Cluster {
	w.Helper()
	var file bytes.Buffer
	w.must(w.Write(&file))
	c, err := Open(&file, "test")
	w.must(err)
	c.Namespace = metav1.NamespaceAll
	return c
}

// surveyed surveys all nodes.
func surveyed(t *testing.T, c *Cluster) *Survey {
	t.Helper()
	s, err := c.Survey(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNodes: every node that the scheduler would not rely on is shown as in trouble, with the
// reason and the advice.
func TestNodes(t *testing.T) {
	w := newWorld(t)
	w.report(w.addNode("ready", pod("held", 3)))
	w.addNode("unreported")
	stray := w.addNode("stray")
	w.report(stray)
	w.Nodes = slices.DeleteFunc(w.Nodes, func(n *corev1.Node) bool { return n.Name == "stray" })
	w.report(w.addNode("silent"))
	w.Leases = slices.DeleteFunc(w.Leases, func(l *coordinationv1.Lease) bool { return l.Name == v1alpha1.HeartbeatName("silent") })
	w.beat("silent", noon.Add(-61*time.Second))
	broken := w.addNode("broken")
	broken.Status.SharedCPUs = "0-9"
	w.report(broken)
	unready := w.addNode("unready")
	unready.Status.Conditions[0].Status, unready.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonContradiction
	w.report(unready)
	w.bind(pod("held", 3), "ready", "")
	w.bind(pod("coming", 2), "ready", "4-5")

	s, err := w.cluster().Survey(t.Context(), "")
	w.must(err)
	got := map[string]string{}
	for _, n := range s.Nodes() {
		got[n.Name] = n.Guarantee
		if n.Trouble != nil {
			got[n.Name] += " " + n.Trouble.Reason
			if n.Trouble.Message == "" {
				t.Errorf("%s: %+v: want words", n.Name, n.Trouble)
			}
		}
	}
	want := map[string]string{"ready": "full", "unreported": "none " + nodestate.NoReport, "stray": "none " + nodestate.NoSuchNode,
		"silent": "none " + nodestate.Silent, "broken": "none " + nodestate.Malformed, "unready": "none " + v1alpha1.ReasonContradiction}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	ready := s.Nodes()[slices.Index(s.Names(), "ready")]
	if ready.Pods != 1 || ready.InFlight != 1 || ready.Report != 7 || ready.AgeSeconds != 10 {
		t.Errorf("%+v: want 1 pod, 1 on its way, report 7 and a sign of life 10 s ago", ready)
	}
	if free := ready.NUMANodes[0].CPUs.Free + ready.NUMANodes[1].CPUs.Free; free != 2 {
		t.Errorf("%d CPUs are free: want the 2 that neither pod has", free)
	}
}

// TestObeyingNode: a decision for a node counts before it is reported, the default policy is the
// node's, and pods that do not run according to the decision cause a warning.
func TestObeyingNode(t *testing.T) {
	w := newWorld(t)
	nt := w.addNode("obeys")
	nt.Spec.Authority, nt.Spec.CPUManager.Policy, nt.Spec.TopologyManager = v1alpha1.AuthorityBerth, "", v1alpha1.TopologyManager{}
	nt.Spec.Defaults = &v1alpha1.Defaults{Policy: "restricted", Scope: "pod"}
	nt.Status.Conditions = append(nt.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonAstray, Message: "default/run/main runs on CPUs 1-7"})
	line, err := v1alpha1.ParsePodAllocation("uid-run pod=default/run main;cpus=1-2")
	w.must(err)
	nt.Status.Pods, nt.Status.SharedCPUs = []v1alpha1.PodAllocation{line}, "0,3-7"
	w.report(nt)
	w.bind(pod("run", 2), "obeys", "1-2")
	w.bind(pod("coming", 2), "obeys", "4-5")
	s, err := w.cluster().Survey(t.Context(), "")
	w.must(err)
	n := s.Nodes()[0]
	if n.Trouble != nil || n.Authority != "berth" || n.Policy != "restricted" || n.Scope != "pod" || n.Guarantee != "full" {
		t.Errorf("%+v, trouble %+v", n, n.Trouble)
	}
	if len(n.NUMANodes) != 2 || n.NUMANodes[0].CPUs == nil || n.NUMANodes[0].CPUs.Free != 1 || n.NUMANodes[1].CPUs.Free != 2 {
		t.Errorf("%+v, want 1 and 2 CPUs free", n.NUMANodes)
	}
	if len(n.Warnings) != 1 || n.Warnings[0].Reason != v1alpha1.ReasonAstray || n.Warnings[0].Advice == "" {
		t.Errorf("warnings %+v", n.Warnings)
	}
}

// TestPods: the outcome of each promise.
func TestPods(t *testing.T) {
	w := newWorld(t)
	kept, broken, wordless := pod("kept", 2), pod("broken", 2), pod("wordless", 1)
	w.report(w.addNode("n", kept, broken, wordless))
	w.bind(kept, "n", "1-2")
	w.bind(broken, "n", "6-7")
	w.bind(wordless, "n", "")
	w.bind(pod("coming", 1), "n", "6")
	w.bind(pod("refused", 1), "n", "7").Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "TopologyAffinityError", QOSClass: corev1.PodQOSGuaranteed,
		Message: "Pod was rejected: Resources cannot be allocated with Topology locality"}
	w.bind(pod("past", 1), "n", "7").Status.Phase = corev1.PodSucceeded
	forged := w.bind(pod("forged", 1), "n", "")
	forged.Annotations = map[string]string{wire.PlacementAnnotation: "{"}
	w.bind(pod("waiting", 1), "", "").Status.Phase = corev1.PodPending

	pods, err := w.cluster().Pods(t.Context(), "")
	w.must(err)
	got := map[string]string{}
	for i := range pods.Pods {
		p := &pods.Pods[i]
		got[p.Name] = strings.Join([]string{p.State, p.CPUs, p.NUMANodes, p.Outcome}, "|")
		if (p.Error != "") != (p.Name == "forged") {
			t.Errorf("%s: error %q", p.Name, p.Error)
		}
	}
	want := map[string]string{
		"kept": "admitted|1-2|0|kept", "broken": "admitted|4-5|1|differs", "wordless": "admitted|3|0|",
		"coming": "in flight|6|1|not yet reported", "refused": "refused|||refused", "past": "ended|||no longer reported",
		"forged": "in flight|||", "waiting": "pending|||",
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: got %q, want %q", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d pods, want %d", len(got), len(want))
	}
}

// TestFreeWhereBerthDecides: CPU time that pods have is not free. CPUs that a pod keeps idle are
// drawn as such.
func TestFreeWhereBerthDecides(t *testing.T) {
	w := newWorld(t)
	nt := w.addNode("obeys")
	nt.Spec.Authority, nt.Spec.CPUManager.Policy, nt.Spec.TopologyManager = v1alpha1.AuthorityBerth, "", v1alpha1.TopologyManager{}
	w.report(nt)
	place := func(name string, c placement.ContainerDecision) {
		p := w.bind(pod(name, 1), "obeys", "")
		c.Name, c.Hint = "main", placement.Hint{Any: true}
		text, err := wire.WritePlacement(&wire.Placement{Sequence: uint64(len(w.Pods)), Report: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Authority: placement.AuthorityBerth,
			Decision: placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{c}}})
		w.must(err)
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
	}
	place("shares", placement.ContainerDecision{Shares: []placement.CPUShare{{NUMA: 0, MilliCPU: 1500}}})
	place("alone", placement.ContainerDecision{CPUs: topology.NewCPUSet(4), Exclusive: joint.ExclusiveNUMA})
	s, err := w.cluster().Survey(t.Context(), "")
	w.must(err)
	var free []uint64
	for _, n := range s.Nodes()[0].NUMANodes {
		free = append(free, n.CPUs.Free)
	}
	if !slices.Equal(free, []uint64{1, 0}) {
		t.Errorf("free %v: want 1 of 3 CPUs beside 1500m of CPU time, and none beside a pod that is alone", free)
	}
	b, err := s.Berths("obeys")
	w.must(err)
	svg, _ := machineview.BerthsInline(s.Machine("obeys"), b)
	for _, want := range []string{"1 of 3 CPUs free", "0 of 4 CPUs free", "CPU 5: kept idle by a pod"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the drawing does not say %q", want)
		}
	}
}

// TestNothingIsPromisedOfFractions: a Guaranteed pod of 1500m shares CPUs. It is not shown as
// certain or kept, and the reason is given. If its kubelet refused it, it is still shown as
// refused.
func TestNothingIsPromisedOfFractions(t *testing.T) {
	w := newWorld(t)
	w.report(w.addNode("n"))
	bound := func(name string, phase corev1.PodPhase) *corev1.Pod {
		p := pod(name, 1)
		p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1500m")
		w.bind(p, "n", "").Status.Phase = phase
		text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
			Decision: placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{Any: true}}}}})
		w.must(err)
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
		return p
	}
	bound("runs", corev1.PodRunning)
	refused := bound("refused", corev1.PodFailed)
	refused.Status.Reason, refused.Status.Message = "TopologyAffinityError", "Pod was rejected: Resources cannot be allocated with Topology locality"
	c := w.cluster()
	pods, err := c.Pods(t.Context(), "")
	w.must(err)
	for _, p := range pods.Pods {
		want := map[string]string{"runs": "", "refused": PromiseRefused}[p.Name]
		if p.Certainty != "" || p.Outcome != want {
			t.Errorf("%s: certainty %q, outcome %q: want none, and %q", p.Name, p.Certainty, p.Outcome, want)
		}
	}
	c.Namespace = "default"
	e, err := c.Explain(t.Context(), "runs", "")
	w.must(err)
	const why = "main: 1500m is not a whole number of CPUs, so it gets CPU time but no CPUs of its own: want 1 or 2"
	if e.Outcome != "" || e.Promise.Pins() || !slices.Equal(e.Fractions, []string{why}) {
		t.Errorf("outcome %q, promise %+v, %q: want nothing promised, and %q", e.Outcome, e.Promise, e.Fractions, why)
	}
}

// TestExplain: the answer of each node about a waiting pod.
func TestExplain(t *testing.T) {
	w := newWorld(t)
	w.report(w.addNode("free"))
	w.report(w.addNode("taken", pod("a", 3), pod("b", 2)))
	w.bind(pod("a", 3), "taken", "")
	w.bind(pod("b", 2), "taken", "")
	w.report(w.addNode("crowded"))
	w.Nodes[2].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("0")
	w.report(w.addNode("small"))
	w.Nodes[3].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2")
	w.report(w.addNode("tainted"))
	w.Nodes[4].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	w.addNode("unreported")
	w.bind(pod("p", 3), "", "").Status.Phase = corev1.PodPending
	c := w.cluster()
	c.Namespace = "default"

	e, err := c.Explain(t.Context(), "p", "")
	w.must(err)
	got := map[string]string{}
	for _, a := range e.Nodes {
		got[a.Node] = a.Answer
		if a.Message == "" || (a.Refusal != nil) != (a.Node == "taken") {
			t.Errorf("%s: %+v", a.Node, a)
		}
	}
	want := map[string]string{"free": Admits, "taken": Refuses, "crowded": Refuses, "small": Excluded, "tainted": Excluded, "unreported": Unreliable}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := c.Explain(t.Context(), "nobody", ""); err == nil || !strings.Contains(err.Error(), "no pod nobody") {
		t.Errorf("of nobody: %v", err)
	}
}

// TestOutcomesAreRemembered: the last outcome of a pod stays when the pod ends, whether the end or
// a report without the pod comes first.
func TestOutcomesAreRemembered(t *testing.T) {
	for _, c := range []struct{ seen, want []string }{
		{[]string{PromiseOpen, PromiseKept, PromisePast}, []string{PromiseOpen, PromiseKept, PromiseKept}},
		{[]string{PromiseBroken, PromiseOpen, PromisePast}, []string{PromiseBroken, PromiseBroken, PromiseBroken}},
		{[]string{PromiseKept, PromiseBroken, PromisePast}, []string{PromiseKept, PromiseBroken, PromiseBroken}},
		{[]string{PromiseOpen, PromisePast}, []string{PromiseOpen, PromisePast}},
	} {
		last := map[string]string{}
		var got []string
		for _, outcome := range c.seen {
			p := Pod{UID: "u", Outcome: outcome}
			p.remember(last)
			got = append(got, p.Outcome)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %q is said %q, want %q", c.seen, got, c.want)
		}
	}
}

// FuzzOpen: a snapshot, such as a capture of shadow mode, is read or refused. If it is read, its
// nodes and pods can be listed.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"kind":"BerthSnapshot","version":1,"taken":"2026-01-01T00:00:00Z","staleAfter":"1m0s","nodes":[{"metadata":{"name":"n"}}],"pods":[{"metadata":{"name":"p","namespace":"d"}}],
"nodeResourceTopologies":[{"metadata":{"name":"n"},"zones":[{"name":"node-0","type":"Node"}]}],"reservations":[{"metadata":{"name":"r"},"spec":{"template":"x"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var file bytes.Buffer
		packed := gzip.NewWriter(&file)
		if _, err := packed.Write(data); err != nil || packed.Close() != nil {
			t.Fatal(err)
		}
		c, err := Open(&file, "f")
		if err != nil {
			return
		}
		_, _ = c.Survey(t.Context(), "")
		_, _ = c.Pods(t.Context(), "")
		_, _ = c.Gangs(t.Context())
	})
}
