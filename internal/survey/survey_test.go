package survey

import (
	"bytes"
	"compress/gzip"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// TestNodes: every node that the scheduler would not rely on is shown as in trouble, with the
// reason and the advice.
func TestNodes(t *testing.T) {
	w := newWorld(t)
	w.Report(w.AddNode("ready", pod("held", 3)))
	w.AddNode("unreported")
	stray := w.AddNode("stray")
	w.Report(stray)
	w.Nodes = slices.DeleteFunc(w.Nodes, func(n *corev1.Node) bool { return n.Name == "stray" })
	w.Report(w.AddNode("silent"))
	w.Leases = slices.DeleteFunc(w.Leases, func(l *coordinationv1.Lease) bool { return l.Name == v1alpha1.HeartbeatName("silent") })
	w.Beat("silent", noon.Add(-61*time.Second))
	broken := w.AddNode("broken")
	broken.Status.SharedCPUs = "0-9"
	w.Report(broken)
	unready := w.AddNode("unready")
	unready.Status.Conditions[0].Status, unready.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonContradiction
	w.Report(unready)
	w.Bind(pod("held", 3), "ready", "")
	w.Bind(pod("coming", 2), "ready", "4-5")

	s, err := w.cluster().Survey(t.Context(), "")
	w.Must(err)
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
	nt := w.AddNode("obeys")
	nt.Spec.Authority, nt.Spec.CPUManager.Policy, nt.Spec.TopologyManager = v1alpha1.AuthorityBerth, "", v1alpha1.TopologyManager{}
	nt.Spec.Defaults = &v1alpha1.Defaults{Policy: "restricted", Scope: "pod"}
	nt.Status.Conditions = append(nt.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonAstray, Message: "default/run/main runs on CPUs 1-7"})
	line, err := v1alpha1.ParsePodAllocation("uid-run pod=default/run main;cpus=1-2")
	w.Must(err)
	nt.Status.Pods, nt.Status.SharedCPUs = []v1alpha1.PodAllocation{line}, "0,3-7"
	w.Report(nt)
	w.Bind(pod("run", 2), "obeys", "1-2")
	w.Bind(pod("coming", 2), "obeys", "4-5")
	s, err := w.cluster().Survey(t.Context(), "")
	w.Must(err)
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
	w.Report(w.AddNode("n", kept, broken, wordless))
	w.Bind(kept, "n", "1-2")
	w.Bind(broken, "n", "6-7")
	w.Bind(wordless, "n", "")
	w.Bind(pod("coming", 1), "n", "6")
	w.Bind(pod("refused", 1), "n", "7").Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "TopologyAffinityError", QOSClass: corev1.PodQOSGuaranteed,
		Message: "Pod was rejected: Resources cannot be allocated with Topology locality"}
	w.Bind(pod("past", 1), "n", "7").Status.Phase = corev1.PodSucceeded
	forged := w.Bind(pod("forged", 1), "n", "")
	forged.Annotations = map[string]string{wire.PlacementAnnotation: "{"}
	w.Bind(pod("waiting", 1), "", "").Status.Phase = corev1.PodPending

	pods, err := w.cluster().Pods(t.Context(), "")
	w.Must(err)
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
	nt := w.AddNode("obeys")
	nt.Spec.Authority, nt.Spec.CPUManager.Policy, nt.Spec.TopologyManager = v1alpha1.AuthorityBerth, "", v1alpha1.TopologyManager{}
	w.Report(nt)
	place := func(name string, c placement.ContainerDecision) {
		p := w.Bind(pod(name, 1), "obeys", "")
		c.Name, c.Hint = "main", placement.Hint{Any: true}
		text, err := wire.WritePlacement(&wire.Placement{Sequence: uint64(len(w.Pods)), Report: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Authority: placement.AuthorityBerth,
			Decision: placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{c}}})
		w.Must(err)
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
	}
	place("shares", placement.ContainerDecision{Shares: []placement.CPUShare{{NUMA: 0, MilliCPU: 1500}}})
	place("alone", placement.ContainerDecision{CPUs: topology.NewCPUSet(4), Exclusive: joint.ExclusiveNUMA})
	s, err := w.cluster().Survey(t.Context(), "")
	w.Must(err)
	var free []uint64
	for _, n := range s.Nodes()[0].NUMANodes {
		free = append(free, n.CPUs.Free)
	}
	if !slices.Equal(free, []uint64{1, 0}) {
		t.Errorf("free %v: want 1 of 3 CPUs beside 1500m of CPU time, and none beside a pod that is alone", free)
	}
	b, err := s.Berths("obeys")
	w.Must(err)
	svg, _ := machineview.BerthsInline(s.Machine("obeys"), b)
	for _, want := range []string{"1 of 3 CPUs free", "0 of 4 CPUs free", "CPU 5: kept idle by a pod"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the drawing does not say %q", want)
		}
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
