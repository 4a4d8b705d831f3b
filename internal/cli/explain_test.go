package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
)

// asked is a command line and its expected result.
type asked struct {
	args []string
	code int
	// want has texts that must be on stdout or stderr, and never texts that must not.
	want, never []string
}

func (a *asked) check(t *testing.T, w *world) {
	t.Helper()
	code, stdout, stderr := run(t, append(slices.Clone(a.args), "--kubeconfig", w.kubeconfig())...)
	said := stdout + stderr
	if code != a.code {
		t.Errorf("%v: exit code %d, want %d:\n%s", a.args, code, a.code, said)
	}
	for _, text := range a.want {
		if !strings.Contains(said, text) {
			t.Errorf("%v: want %q in\n%s", a.args, text, said)
		}
	}
	for _, text := range a.never {
		if strings.Contains(said, text) {
			t.Errorf("%v: want no %q in\n%s", a.args, text, said)
		}
	}
}

func onePod(t *testing.T, node string) (*world, *corev1.Pod) {
	w := &world{t: t}
	w.pods = make([]corev1.Pod, 0, 8)
	w.addNode("n1", 0)
	w.addNode("n2", 0)
	return w, w.addPod("pod", node, 2, 0)
}

// TestUnserved: if no scheduler has tried a pod, the answer is not that it fits, and the message
// names the missing scheduler.
func TestUnserved(t *testing.T) {
	const unserved = "no scheduler has looked at this pod in 100s"
	holder, renewed := "berth-scheduler-0", metav1.NewMicroTime(noon.Add(-time.Second))
	old, lasts := metav1.NewMicroTime(noon.Add(-16*time.Second)), int32(15)
	dead := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &old, LeaseDurationSeconds: &lasts}}
	election := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed}}
	for name, c := range map[string]struct {
		spoil func(*world, *corev1.Pod)
		asked
	}{
		"nobody":         {func(*world, *corev1.Pod) {}, asked{code: ExitFailure, want: []string{unserved, "no Lease of a scheduler named bert was found, and no other pod", "start a scheduler"}}},
		"another serves": {func(w *world, _ *corev1.Pod) { w.addPod("other", "n1", 1, 0) }, asked{code: ExitFailure, want: []string{unserved, "scheduled pods have the schedulerName berth-scheduler"}}},
		"it served":      {func(w *world, _ *corev1.Pod) { w.addPod("other", "n1", 1, 0).Spec.SchedulerName = "bert" }, asked{code: ExitFailure, want: []string{unserved, "but 1 other pod with this schedulerName got a node"}}},
		"it leads": {func(w *world, _ *corev1.Pod) {
			w.elections = map[string]*coordinationv1.Lease{"/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/bert-scheduler": election}
		}, asked{code: ExitFailure, want: []string{unserved, "Lease berth-system/bert-scheduler is held by berth-scheduler-0, which renewed it 1s ago", "do: look at the log of that scheduler"}}},
		"it is dead": {func(w *world, _ *corev1.Pod) {
			w.elections = map[string]*coordinationv1.Lease{"/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/bert-scheduler": dead}
		}, asked{code: ExitFailure, want: []string{unserved, "which renewed it 16s ago", "do: the Lease has run out: check whether that scheduler still runs"}, never: []string{"look at the log"}}},
		"young":     {func(_ *world, p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-time.Second)) }, asked{code: ExitOK, never: []string{unserved}}},
		"gated":     {func(_ *world, p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }, asked{code: ExitFailure, want: []string{"held back by SchedulingGates"}, never: []string{unserved}}},
		"nominated": {func(_ *world, p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }, asked{code: ExitOK, never: []string{unserved}}},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := onePod(t, "")
			w.addTopology(reportOf(t, "n1"), nil)
			pod.Spec.SchedulerName, pod.Status.Conditions = "bert", nil
			c.spoil(w, pod)
			c.args = []string{"explain", "pod"}
			c.check(t, w)
		})
	}
}

// TestMembersSayWhatTheirGangSays: explain, top and the explanation of a gang give the same reason
// why a member waits, whether a scheduler has written to the pod or not.
func TestMembersSayWhatTheirGangSays(t *testing.T) {
	const unserved, looked = "no scheduler has looked", "its scheduler berth-scheduler has written no condition into it yet"
	ofGang := func(p *corev1.Pod, gang, minimum string) *corev1.Pod {
		p.Annotations, p.Status.Conditions = map[string]string{wire.GangAnnotation: gang, wire.GangMinimumAnnotation: minimum}, nil
		return p
	}
	for name, c := range map[string]struct {
		spoil       func(*world, *corev1.Pod)
		code        int
		want, never []string
		inTop       string
	}{
		"forming": {func(w *world, p *corev1.Pod) {
			ofGang(p, "z", "4")
			ofGang(w.addPod("mate", "", 2, 0), "z", "4")
		}, ExitFailure, []string{"member of: gang default/z, forming: 2 of 4 pods are there (see explain gang z)", "2 nodes, asked about this pod without its gang", "the pod's gang is incomplete"}, []string{unserved}, "gang default/z: 2 of 4 pods are there"},
		"no number": {func(_ *world, p *corev1.Pod) { ofGang(p, "k", "three") }, ExitFailure,
			[]string{`member of: gang default/k, wrong: Pod default/pod: metadata.annotations[berth.dev/gang-minimum]: "three": want the number`, "the gang's declaration cannot be used"}, []string{unserved}, `"three"`},
		"no minimum": {func(_ *world, p *corev1.Pod) {
			ofGang(p, "k", "")
			delete(p.Annotations, wire.GangMinimumAnnotation)
		}, ExitFailure, []string{"wrong", "want this annotation next to berth.dev/gang: the number of pods of the gang that start together"}, []string{unserved}, "want this annotation next to"},
		"two minima": {func(w *world, p *corev1.Pod) {
			ofGang(p, "k", "2")
			ofGang(w.addPod("mate", "", 2, 0), "k", "3")
		}, ExitFailure, []string{`gang default/k, wrong: `, `"2": want 3`}, []string{unserved}, "gang default/k: "},
		"bad name": {func(_ *world, p *corev1.Pod) { ofGang(p, "Train 1", "2") }, ExitFailure,
			[]string{`member of: a gang, wrong: Pod default/pod: metadata.annotations[berth.dev/gang]: "Train 1": want the name of a gang`}, []string{unserved}, "the name of a gang"},
		"absent group": {func(_ *world, p *corev1.Pod) {
			p.Annotations, p.Status.Conditions = map[string]string{"scheduling.k8s.io/group-name": "lost"}, nil
		}, ExitFailure, []string{"PodGroup.scheduling.volcano.sh default/lost, wrong: PodGroup.scheduling.volcano.sh default/lost does not exist"}, []string{unserved}, "default/lost does not exist"},
		"whole at last": {func(w *world, p *corev1.Pod) {
			ofGang(p, "z", "2")
			ofGang(w.addPod("mate", "", 2, 0), "z", "2").CreationTimestamp = metav1.NewTime(noon.Add(-time.Second))
		}, ExitOK, []string{"member of: gang default/z, waiting (see explain gang z)"}, []string{unserved}, "gang default/z: its pods exist"},
		"a mate was told": {func(w *world, p *corev1.Pod) {
			ofGang(p, "z", "2")
			told := ofGang(w.addPod("mate", "", 2, 0), "z", "2")
			told.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available: Berth: gang default/z does not fit: 0 of 2"}}
		}, ExitOK, []string{"gang default/z, waiting"}, []string{unserved}, "gang default/z does not fit: 0 of 2"},
		"an event": {func(w *world, p *corev1.Pod) {
			p.Status.Conditions = nil
			for _, e := range []corev1.Event{{Source: corev1.EventSource{Component: "karpenter"}, Message: "no pool"}, {ReportingController: "berth-scheduler", Message: "the pod cannot be read"}} {
				e.InvolvedObject.UID = p.UID
				w.events = append(w.events, e)
			}
		}, ExitOK, []string{"message: the pod cannot be read"}, []string{unserved, "no pool"}, looked},
		"nobody at all": {func(w *world, p *corev1.Pod) {
			ofGang(p, "z", "2")
			ofGang(w.addPod("mate", "", 2, 0), "z", "2")
		}, ExitFailure, []string{unserved}, nil, "its pods exist, and no scheduler has reported why they wait"},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := onePod(t, "")
			w.groups = []map[string]any{}
			w.addTopology(reportOf(t, "n1"), nil)
			c.spoil(w, pod)
			(&asked{args: []string{"explain", "pod"}, code: c.code, want: c.want, never: c.never}).check(t, w)
			(&asked{args: []string{"top"}, want: []string{c.inTop}, never: []string{unserved}}).check(t, w)
		})
	}
}

// TestRefused: a pod that its kubelet refused is shown as refused, and its node is asked again.
func TestRefused(t *testing.T) {
	refused := corev1.PodStatus{Phase: corev1.PodFailed, QOSClass: corev1.PodQOSGuaranteed, Reason: "TopologyAffinityError", Message: "Pod was rejected: Resources cannot be allocated with Topology locality"}
	w, pod := onePod(t, "n1")
	pod.Status = refused
	w.addTopology(reportOf(t, "n1", requestOf(t, w.addPod("seven", "n1", 7, 0)), requestOf(t, w.addPod("five", "n1", 5, 0))), nil)
	for _, a := range []asked{
		{args: []string{"pods"}, want: []string{"n1     refused"}},
		{args: []string{"explain", "pod"}, code: ExitFailure, want: []string{"refused by the kubelet of node n1", "TopologyAffinityError: Pod was rejected", "asked again now:\n  1 node refuses", "RESOURCE  ASKED  NUMA  FREE"}},
		{args: []string{"explain", "pod", "--node", "n1"}, code: ExitFailure, want: []string{"RESOURCE  ASKED  NUMA  FREE"}},
	} {
		a.check(t, w)
	}

	w, pod = onePod(t, "n1")
	pod.Status = refused
	annotate(t, pod, reportOf(t, "n1", requestOf(t, pod)), 1, wire.Exact)
	w.addTopology(reportOf(t, "n1"), nil)
	for _, a := range []asked{
		{args: []string{"pods"}, want: []string{"refused   -"}},
		{args: []string{"explain", "pod"}, code: ExitFailure, want: []string{"promise: refused", "1 node admits: would take the pod on 1 NUMA node"}},
	} {
		a.check(t, w)
	}
}

// TestOutcomeAfterEnd: the outcome of a promise is still shown after the pod has ended.
func TestOutcomeAfterEnd(t *testing.T) {
	for listed, want := range map[bool]string{true: "promise: kept", false: "promise: no longer reported"} {
		w, pod := onePod(t, "n1")
		n := reportOf(t, "n1", requestOf(t, pod))
		annotate(t, pod, n, 1, wire.Exact)
		pod.Status.Phase = corev1.PodSucceeded
		if !listed {
			n = reportOf(t, "n1")
		}
		w.addTopology(n, nil)
		(&asked{args: []string{"explain", "pod"}, want: []string{want}}).check(t, w)
	}
}

// TestExplainElsewhere: for a bound pod, other possible nodes are shown, or the answer of a named
// node.
func TestExplainElsewhere(t *testing.T) {
	w, pod := onePod(t, "n2")
	*pod = *w.addPod("pod", "n2", 6, 0)
	w.pods = w.pods[:1]
	w.addTopology(reportOf(t, "n1"), nil)
	first := w.addPod("first", "n2", 4, 0)
	second := w.addPod("second", "n2", 4, 0)
	n2 := reportOf(t, "n2", requestOf(t, first), requestOf(t, second), requestOf(t, pod))
	w.addTopology(n2, nil)
	w.addNode("n3", 0)
	w.addTopology(reportOf(t, "n3", requestOf(t, w.addPod("third", "n3", 4, 0)), requestOf(t, w.addPod("fourth", "n3", 4, 0))), nil)
	for _, a := range []asked{
		{args: []string{"explain", "pod"}, want: []string{"now, 2 other nodes:", "would take the pod on 1 NUMA node", "would use fewer NUMA nodes than now: n1"}, never: []string{"RESOURCE  ASKED"}},
		{args: []string{"explain", "pod", "--nodes", "1"}, want: []string{"node n3 (report 7", "RESOURCE  ASKED"}},
		{args: []string{"explain", "pod", "--node", "n3"}, want: []string{"now, 1 other node:", "RESOURCE  ASKED"}, never: []string{"(n1)"}},
		{args: []string{"explain", "pod", "--node", "nope"}, code: ExitFailure, want: []string{"there is no Node nope"}},
		{args: []string{"explain", "pod", "--node", "n2"}, want: []string{"on node n2"}, never: []string{"(n2)", "(n1)"}},
	} {
		a.check(t, w)
	}
}

// TestWhatWouldFit: if no node admits a pod, the largest similar pod is named that some node would
// admit, even if the pod requests more than the whole node has.
func TestWhatWouldFit(t *testing.T) {
	for cpus, want := range map[int64]string{
		12:  "would fit now: container main with 8 CPUs instead of 12, on 1 NUMA node: n1",
		400: "would fit now: container main with 8 CPUs instead of 400, on 1 NUMA node: n1",
	} {
		w := &world{t: t}
		w.addNode("n1", 0).Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("14"), "memory": resource.MustParse("30Gi"), "pods": resource.MustParse("110")}
		w.addTopology(reportOf(t, "n1"), nil)
		w.addPod("large", "", cpus, 0)
		a := asked{args: []string{"explain", "large"}, code: ExitFailure, want: []string{want}}
		a.check(t, w)
	}
}

// TestResize: the output says if the kubelet does not carry out a resize.
func TestResize(t *testing.T) {
	for reason, want := range map[string]string{
		corev1.PodReasonInfeasible: "resize: infeasible: needs 40 CPUs; the pod keeps what it had",
		corev1.PodReasonDeferred:   "resize: deferred: needs 40 CPUs; the kubelet tries again",
	} {
		w, pod := onePod(t, "n1")
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: "needs 40 CPUs"}}
		w.addTopology(reportOf(t, "n1", requestOf(t, pod)), nil)
		(&asked{args: []string{"explain", "pod"}, want: []string{want}}).check(t, w)
	}
}

// TestGivenIsShown: the used amounts of a provider's resource are printed below the nodes' answers.
func TestGivenIsShown(t *testing.T) {
	var b strings.Builder
	e := &query.Explained{Name: "p", Namespace: "default", Pinnable: true, Answers: query.Answers{Nodes: []query.Answer{
		{Node: "n1", Answer: query.Admits, Given: []survey.Given{{Resource: "example.com/licence", Place: "socket 0", Amount: 3}}},
		{Node: "n2", Answer: query.Admits},
	}}}
	if err := explainedText(&b, e, 0); err != nil {
		t.Fatal(err)
	}
	if _, below, _ := strings.Cut(b.String(), "only they know the totals):\n"); strings.Join(strings.Fields(below), " ") != "NODE RESOURCE PLACE GIVEN n1 example.com/licence socket 0 3" {
		t.Errorf("%s", b.String())
	}
}

// TestPodsThatShare: for pods without exclusive CPUs, obeying nodes are asked, and other nodes by
// amounts. If no node would be asked, the output says that Berth lets them pass.
func TestPodsThatShare(t *testing.T) {
	const pass, aligned = "Berth makes no decision for this pod", "single-numa-node"
	for name, c := range map[string]struct {
		cpus        int64
		annotations map[string]string
		bound       string
		nodes       []string
		asked
	}{
		"it fits":          {cpus: 6, annotations: map[string]string{wire.PolicyAnnotation: aligned}, nodes: []string{"obeys"}, asked: asked{want: []string{"1 node admits: would take the pod on 1 NUMA node"}, never: []string{pass}}},
		"no NUMA node":     {cpus: 9, annotations: map[string]string{wire.PolicyAnnotation: aligned}, nodes: []string{"obeys"}, asked: asked{code: ExitFailure, want: []string{"1 node refuses", "would fit now: container main with 8 CPUs instead of 9, on 1 NUMA node: obeys", "no node takes the pod"}, never: []string{pass}}},
		"others pass":      {cpus: 9, annotations: map[string]string{wire.PolicyAnnotation: aligned}, nodes: []string{"obeys", "kubelet", "bare"}, asked: asked{want: []string{"1 node refuses", "2 nodes admit: would take the pod\n"}, never: []string{pass}}},
		"others are short": {cpus: 15, nodes: []string{"obeys", "kubelet", "bare"}, asked: asked{code: ExitFailure, want: []string{"3 nodes", "would fit now: container main with 14 CPUs instead of 15: kubelet"}, never: []string{pass}}},
		"two NUMA nodes":   {cpus: 2, annotations: map[string]string{wire.NUMANodesAnnotation: "2"}, nodes: []string{"kubelet"}, asked: asked{code: ExitFailure, want: []string{"1 node is excluded: ", "the kubelet pins no CPUs for the pod"}, never: []string{pass}}},
		"kubelets":         {cpus: 9, annotations: map[string]string{wire.PolicyAnnotation: aligned}, nodes: []string{"kubelet", "bare"}, asked: asked{want: []string{pass}, never: []string{"node:", "nodes:"}}},
		"misspelt":         {cpus: 1, annotations: map[string]string{wire.PolicyAnnotation: "singel"}, nodes: []string{"obeys", "kubelet"}, asked: asked{code: ExitFailure, args: []string{"--node", "kubelet"}, want: []string{"the scheduler cannot read the pod"}, never: []string{pass}}},
		"nobody reads it":  {cpus: 1, annotations: map[string]string{wire.PolicyAnnotation: "singel"}, nodes: []string{"kubelet"}, asked: asked{want: []string{pass}}},
		"one that passes":  {cpus: 9, nodes: []string{"obeys", "kubelet"}, asked: asked{args: []string{"--node", "kubelet"}, want: []string{pass}}},
		"it has a node":    {cpus: 2, bound: "obeys", nodes: []string{"obeys", "kubelet"}, asked: asked{want: []string{"now, 1 other node:", "because the pod has no placement"}, never: []string{pass, "on fewer NUMA nodes"}}},
		"it has passed":    {cpus: 2, bound: "kubelet", nodes: []string{"obeys", "kubelet"}, asked: asked{want: []string{pass}, never: []string{"promised", "other node"}}},
		"a Reservation's":  {cpus: 2, annotations: map[string]string{wire.ReservationAffinityAnnotation: `{"name":"r"}`}, nodes: []string{"kubelet"}, asked: asked{code: ExitFailure, want: []string{"only a place that a Reservation holds"}, never: []string{pass}}},
		"a member":         {cpus: 9, annotations: map[string]string{wire.PolicyAnnotation: aligned, wire.GangAnnotation: "g", wire.GangMinimumAnnotation: "1"}, nodes: []string{"obeys"}, asked: asked{want: []string{pass}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t}
			for _, node := range c.nodes {
				w.addNode(node, 0).Status.Allocatable = amountsText("cpu", "14", "memory", "30Gi", "pods", "110")
				switch node {
				case "obeys":
					w.addTopology(obeying(t, node), nil)
				case "kubelet":
					w.addTopology(reportOf(t, node), nil)
				}
			}
			p := w.addPod("pod", c.bound, c.cpus, 0)
			p.Status.QOSClass, p.Annotations = corev1.PodQOSBurstable, c.annotations
			p.Spec.Containers[0].Resources.Limits = nil
			c.asked.args = append([]string{"explain", "pod"}, c.asked.args...)
			c.asked.check(t, w)
		})
	}
}
