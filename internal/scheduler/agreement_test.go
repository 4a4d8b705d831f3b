package scheduler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// answers has an API server's data about node n at one time.
type answers struct {
	now time.Time
	// report and lease are JSON; "" if there is none.
	report, lease string
	// pod is the pod named x, as JSON; "" if there is none.
	pod string
}

// survey asks as the command line does, and returns the result for node n.
func (w *answers) survey(t *testing.T) survey.Node {
	t.Helper()
	all, err := w.connect(t, wire.Terms{}).Survey(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Notes) > 0 || len(all.Nodes()) != 1 {
		t.Fatalf("surveyed %d nodes, notes %q", len(all.Nodes()), all.Notes)
	}
	return all.Nodes()[0]
}

// connect returns the cluster as the command line reads it.
func (w *answers) connect(t *testing.T, terms wire.Terms) *survey.Cluster {
	t.Helper()
	lists := map[string]string{
		"/api/v1/nodes": `{"metadata":{"name":"n"}}`,
		"/api/v1/pods":  "",
		"/apis/berth.dev/v1alpha1/nodetopologies":                                            w.report,
		"/apis/coordination.k8s.io/v1/namespaces/" + v1alpha1.HeartbeatNamespace + "/leases": w.lease,
	}
	kinds := map[string]string{"nodes": "Node", "pods": "Pod", "nodetopologies": "NodeTopology", "leases": "Lease"}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		group, resource := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/"), r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		version, _, _ := strings.Cut(strings.TrimSuffix(group, "/"+resource), "/namespaces/")
		out.Header().Set("Date", w.now.UTC().Format(http.TimeFormat))
		if w.pod != "" && r.URL.Path == "/api/v1/namespaces/default/pods/x" {
			out.Header().Set("Content-Type", "application/json")
			fmt.Fprint(out, w.pod)
			return
		}
		if kinds[resource] == "" { // the kinds of others are not served
			http.NotFound(out, r)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"kind":"%sList","apiVersion":%q,"items":[%s]}`, kinds[resource], version, lists[r.URL.Path])
	}))
	t.Cleanup(s.Close)
	c, err := survey.Connect(source.Options{
		Config: &rest.Config{Host: s.URL}, Heartbeats: v1alpha1.HeartbeatNamespace, StaleAfter: time.Minute, Terms: terms,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWhoMayWithholdAgrees: both the scheduler and the command line refuse a pod that keeps CPUs
// from others, with the same text, unless the scheduler's arguments allow this to its namespace and
// the command line has the same setting.
func TestWhoMayWithholdAgrees(t *testing.T) {
	for name, exclusive := range map[string]wire.Namespaces{
		"nobody may": nil, "another namespace may": {"other"}, "its namespace may": {pinned("x", 1).Namespace}, "all may": {"*"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := with(pinned("x", 1), map[string]string{wire.ExclusiveAnnotation: "numa"})
			f, _ := attached(t, pod)
			f.terms.ExclusiveNamespaces = exclusive
			f.obeys()
			state := newCycleData()
			if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
				t.Fatal(s)
			}
			says, event := f.Filter(t.Context(), state, pod, nodeObject("n")), ""
			if !says.IsSuccess() {
				event = (&diagnosis{cycle: cycleOf(state)}).explain([]*nodes.Node{f.table.Named("n")})
			}
			w := answers{now: f.clock.Now(), report: f.written(nil), lease: f.beat(func(l *coordinationv1.Lease) {
				l.Annotations[v1alpha1.SequenceAnnotation] = fmt.Sprint(f.seq)
			})}
			fits, _, err := query.Fit(t.Context(), w.connect(t, wire.Terms{ExclusiveNamespaces: exclusive}), []query.Wanted{{Pod: pod, Replicas: 1}}, query.FitOptions{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			got := fits[0].Nodes[0].Answer
			if (got.Answer == query.Admits) != says.IsSuccess() || event != "" && !strings.Contains(event, got.Message) {
				t.Errorf("the command line says %s, %q, the scheduler %q", got.Answer, got.Message, event)
			}
			if (len(exclusive) == 0 || exclusive[0] == "other") == says.IsSuccess() {
				t.Errorf("the scheduler says %q", says.Message())
			}
		})
	}
}

// TestPodsThatShareAgree: for pods without exclusive CPUs, the scheduler, explain and fit agree on
// whether Berth decides about the pods, and whether the node admits them.
func TestPodsThatShareAgree(t *testing.T) {
	says := func(key, value string) map[string]string { return map[string]string{key: value} }
	wide := with(burstable("x", "9"), says(wire.PolicyAnnotation, "single-numa-node"))
	grouped, group := wide.DeepCopy(), "g"
	grouped.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	for name, pod := range map[string]*corev1.Pod{
		"plain":       burstable("x", "500m"),
		"aligned":     with(burstable("x", "1500m"), says(wire.PolicyAnnotation, "single-numa-node")),
		"too wide":    wide,
		"full cores":  with(burstable("x", "2"), says(wire.CPUsAnnotation, "full-cores")),
		"on two":      with(burstable("x", "500m"), says(wire.NUMANodesAnnotation, "2")),
		"a whole one": with(burstable("x", "8"), says(wire.ExclusiveAnnotation, "numa")),
		"misspelt":    with(burstable("x", "1"), says(wire.PolicyAnnotation, "singel")),
		"grouped":     grouped,
	} {
		for _, node := range []string{"kubelet", "obeys", "kubelet, silent", "obeys, silent"} {
			t.Run(name+" on "+node, func(t *testing.T) { podsThatShareAgree(t, pod, node) })
		}
	}
}

func podsThatShareAgree(t *testing.T, pod *corev1.Pod, node string) {
	f, _ := attached(t, pod)
	if strings.HasPrefix(node, "obeys") {
		f.obeys()
	}
	w := answers{report: f.written(nil), pod: f.encode(pod)}
	var nt v1alpha1.NodeTopology
	f.decode(w.report, &nt)
	f.feed.ReportSeen(&nt)
	w.lease = f.beat(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.SequenceAnnotation] = fmt.Sprint(f.seq) })
	if strings.HasSuffix(node, "silent") {
		f.clock.Step(2 * time.Minute)
	}
	w.now = f.clock.Now()
	decided, takes := f.decidesFor(pod)
	c := w.connect(t, wire.Terms{})
	c.Namespace = pod.Namespace
	e, err := query.Explain(t.Context(), c, c.Namespace, pod.Name, "")
	if err != nil {
		t.Fatal(err)
	}
	if e.Decided != decided || len(e.Nodes) > 0 != decided || decided && (e.Nodes[0].Answer == query.Admits) != takes {
		t.Errorf("explain says decided %t, %+v; the scheduler %t, it takes the pod: %t", e.Decided, e.Nodes, decided, takes)
	}
	fits, _, err := query.Fit(t.Context(), c, []query.Wanted{{Pod: pod, Replicas: 1}}, query.FitOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := fits[0]; got.Decided != decided || got.Placed > 0 != takes || got.Copies > 0 != takes {
		t.Errorf("fit says decided %t, %d placed: %s; the scheduler %t, it takes the pod: %t", got.Decided, got.Placed, got.Nodes[0].Answer.Message, decided, takes)
	}
}

// decidesFor reports whether the plugin decides about the pod on node n, or before it asks any
// node, and whether the pod may go to n.
func (f *fixture) decidesFor(pod *corev1.Pod) (decided, takes bool) {
	f.Helper()
	state := newCycleData()
	if pod.Spec.SchedulingGroup != nil {
		state.group = struct{ fwk.PodGroupCycleState }{}
	}
	switch _, s := f.PreFilter(f.TB.Context(), state, pod, nil); {
	case s.IsSkip():
		return false, true
	case !s.IsSuccess():
		return true, false
	}
	return !cycleOf(state).passes(f.table.Named("n")), f.Filter(f.TB.Context(), state, pod, nodeObject("n")).IsSuccess()
}

// TestCommandLineAndSchedulerAgree gives the same objects to the scheduler and to the command line.
// The scheduler places pods on a node exactly if the command line calls it Ready, and both explain
// an unreliable node with the same text.
func TestCommandLineAndSchedulerAgree(t *testing.T) {
	heartbeat := func(sequence string) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.SequenceAnnotation] = sequence }
	}
	for _, c := range []struct {
		name   string
		report func(*v1alpha1.NodeTopology)
		// raw replaces the report, with %q for the node's name.
		raw string
		// lease is the heartbeat that comes two minutes later; nil for none.
		lease func(*coordinationv1.Lease)
		want  string
	}{
		{name: "as it should be", lease: heartbeat("2")},
		{name: "a heartbeat that names no report", lease: heartbeat("")},
		{name: "silent", want: noHeartbeat},
		{name: "a heartbeat for the report before", lease: heartbeat("1"), want: noHeartbeat},
		{name: "a heartbeat for a report that is not there", lease: heartbeat("9"), want: noHeartbeat},
		{name: "a heartbeat for no number", lease: heartbeat("x"), want: noHeartbeat},
		{name: "a heartbeat without a time", lease: func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }, want: noHeartbeat},
		{name: "not ready", report: func(nt *v1alpha1.NodeTopology) { nt.Status.Conditions[0].Status = metav1.ConditionFalse }, lease: heartbeat("2"), want: "not Ready"},
		{name: "never reported", report: func(nt *v1alpha1.NodeTopology) { nt.Status = v1alpha1.NodeTopologyStatus{} }, lease: heartbeat(""), want: "not reported"},
		{name: "two decide", report: func(nt *v1alpha1.NodeTopology) { nt.Spec.Authority = v1alpha1.AuthorityBerth }, lease: heartbeat("2"), want: "Berth and the kubelet would both assign CPUs"},
		{name: "no authority", report: func(nt *v1alpha1.NodeTopology) { nt.Spec.Authority = "me" }, lease: heartbeat("2"), want: "spec.authority"},
		{name: "a kubelet of tomorrow", report: func(nt *v1alpha1.NodeTopology) { nt.Spec.KubeletVersion = "v1.99.0" }, lease: heartbeat("2"), want: "1.99"},
		{name: "no machine", report: func(nt *v1alpha1.NodeTopology) { nt.Spec.Machine = "package:two" }, lease: heartbeat("2"), want: "spec.machine"},
		{name: "a policy that is none", report: func(nt *v1alpha1.NodeTopology) { nt.Spec.TopologyManager.Policy = "restrictd" }, lease: heartbeat("2"), want: "restrictd"},
		{name: "CPUs of another machine", report: func(nt *v1alpha1.NodeTopology) { nt.Status.SharedCPUs = "0-99" }, lease: heartbeat("2"), want: "sharedCPUs"},
		{name: "books that do not add up", report: func(nt *v1alpha1.NodeTopology) { nt.Status.SharedCPUs = "0-3" }, lease: heartbeat("2"), want: "to be shared, or held by a container"},
		{name: "too many pods", report: func(nt *v1alpha1.NodeTopology) {
			for i := range 1025 {
				nt.Status.Pods = append(nt.Status.Pods, v1alpha1.PodAllocation{UID: fmt.Sprint("ghost-", i)})
			}
		}, lease: heartbeat("2"), want: "at most 1024"},
		{name: "invalid fields", raw: invalid, lease: heartbeat(""), want: "want a compact machine string"},
		{name: "nonsense", raw: nonsense, lease: heartbeat(""), want: "another release"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.seq = 1
			f.clock.SetTime(time.Unix(1_000_000, 0))
			w := answers{report: fmt.Sprintf(c.raw, "n")}
			if c.raw == "" {
				w.report = f.written(c.report)
			}
			var nt v1alpha1.NodeTopology
			f.decode(w.report, &nt)
			f.feed.ReportSeen(&nt)
			f.clock.Step(2 * time.Minute)
			if c.lease != nil {
				w.lease = f.beat(c.lease)
				var lease coordinationv1.Lease
				f.decode(w.lease, &lease)
				f.feed.HeartbeatSeen(&lease)
			}
			w.now = f.clock.Now()
			node, refusal := w.survey(t), f.refusal("n")
			if !strings.Contains(refusal, c.want) || (refusal == "") != (c.want == "") {
				t.Errorf("the scheduler says %q, want %q", refusal, c.want)
			}
			switch {
			case node.Trouble == nil && refusal != "":
				t.Errorf("Ready, and the scheduler refuses it: %s", refusal)
			case node.Trouble != nil && !strings.HasPrefix(node.Trouble.Message, strings.TrimSuffix(refusal, "...")):
				t.Errorf("the command line says %q, the scheduler %q", node.Trouble.Message, refusal)
			case node.Trouble != nil && refusal == "":
				t.Errorf("the scheduler relies on it, the command line says %q", node.Trouble.Message)
			}
		})
	}
}

// TestNoReportAgrees: both explain a node without a report with the same text.
func TestNoReportAgrees(t *testing.T) {
	f := newFixture(t)
	w := answers{now: f.clock.Now()}
	if node := w.survey(t); node.Trouble == nil || node.Trouble.Message != f.refusal("n") {
		t.Errorf("the command line says %+v, the scheduler %q", node.Trouble, f.refusal("n"))
	}
}

// written returns the current report as the API server has it, after the change.
func (f *fixture) written(change func(*v1alpha1.NodeTopology)) string {
	f.Helper()
	nt := f.topology()
	nt.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "berth-agent", Time: &metav1.Time{Time: f.clock.Now()}}}
	if change != nil {
		change(nt)
	}
	return f.encode(nt)
}

// beat returns a heartbeat that the API server has just received, after the change.
func (f *fixture) beat(change func(*coordinationv1.Lease)) string {
	f.Helper()
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.HeartbeatName("n"), Namespace: v1alpha1.HeartbeatNamespace, Annotations: map[string]string{},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "berth-agent", Time: &metav1.Time{Time: f.clock.Now()}}},
		},
		Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: f.clock.Now()}},
	}
	change(l)
	return f.encode(l)
}

func (f *fixture) encode(object any) string {
	f.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		f.Fatal(err)
	}
	return string(data)
}

func (f *fixture) decode(data string, into any) {
	f.Helper()
	if err := json.Unmarshal([]byte(data), into); err != nil {
		f.Fatal(err)
	}
}
