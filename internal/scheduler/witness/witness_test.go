package witness

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

const tae = "TopologyAffinityError"

// fixture is a cluster of nodes with two NUMA nodes of 8 CPUs, one CPU of which is reserved. Their
// kubelets admit pods that fit on one NUMA node.
type fixture struct {
	*Witness
	t      *testing.T
	clock  *testingclock.FakeClock
	nodes  cache.Indexer
	spec   wire.NodeSpec
	states map[string]*placement.State
	model  *placement.Model
	seq    int64
	writes int
	// started is when the kubelets started. ahead is the error of their clocks.
	started time.Time
	ahead   time.Duration
	last    *v1alpha1.NodeTopology // the last report
	// generation is added to the UIDs of reports.
	generation string
	// spoil changes reports; nil if they stay unchanged.
	spoil func(*v1alpha1.NodeTopology)
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, clock: testingclock.NewFakeClock(time.Unix(1_760_000_000, 0)), states: map[string]*placement.State{}}
	f.started = f.clock.Now().Add(-time.Hour)
	f.Witness = New(Options{StaleAfter: time.Minute, SettleAfter: 5 * time.Second, Share: 0.05, Clock: f.clock, Logger: klog.Background()})
	f.nodes = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	f.objects = corev1listers.NewNodeLister(f.nodes)
	const machine = "package:2 numa:1 core:4 pu:2 mem:16Gi dist:10,21"
	config := placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"}
	f.model = made.Model(t, machine, config)
	m := shapes.Machine(machine)
	view := made.View(t, m)
	f.spec = wire.NodeSpec{Machine: m, View: view, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3", Config: config}
	f.ready.Store(true)
	f.list()
	return f
}

// node makes a node whose agent reports.
func (f *fixture) node(name string) {
	f.t.Helper()
	all := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("15"), corev1.ResourceMemory: resource.MustParse("30Gi"), corev1.ResourcePods: resource.MustParse("110")}
	if err := f.nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: all}}); err != nil {
		f.t.Fatal(err)
	}
	f.states[name] = f.model.NewState()
	f.report(name)
}

// report makes the agent of a node report its pods.
func (f *fixture) report(name string) {
	f.t.Helper()
	f.feed.ReportSeen(f.written(name))
}

// written returns a report that the agent of a node has written.
func (f *fixture) written(name string) *v1alpha1.NodeTopology {
	f.t.Helper()
	f.seq++
	r := wire.Report{Sequence: f.seq, Snapshot: f.states[name].Snapshot(), Observed: f.clock.Now().Add(f.ahead), KubeletStarted: f.started,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reported"}}}
	r.Pods = make([]wire.ReportedPod, len(r.Snapshot.Pods))
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: name, Spec: f.spec, Report: r})
	if err != nil {
		f.t.Fatal(err)
	}
	nt.UID, nt.ResourceVersion = types.UID(name+f.generation), f.version()
	f.last = nt
	if f.spoil != nil {
		f.spoil(nt)
	}
	return nt
}

// again plays another client that writes the last report's object again.
func (f *fixture) again() {
	nt := f.last.DeepCopy()
	nt.ResourceVersion, nt.Labels = f.version(), map[string]string{"pool": "numa"}
	f.feed.ReportSeen(nt)
}

// expire lets so much time pass that no answer of a kubelet can come.
func (f *fixture) expire() {
	f.clock.Step(time.Hour)
	f.close(func(b *shadow.Book, now time.Time) []shadow.Record { return b.Expire(now) })
}

// alive makes the agent send a heartbeat.
func (f *fixture) alive(name string) {
	now := metav1.NewMicroTime(f.clock.Now())
	f.feed.HeartbeatSeen(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(name), ResourceVersion: f.version()}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}})
}

func (f *fixture) pod(name string, cpus int64) *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "d", UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(f.clock.Now())},
		Spec: corev1.PodSpec{SchedulerName: "default-scheduler", RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{
			Name: "c", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}}, Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}}},
		Status: corev1.PodStatus{QOSClass: corev1.PodQOSGuaranteed},
	}
}

// version returns the next resourceVersion of the API.
func (f *fixture) version() string {
	f.writes++
	return fmt.Sprint(f.writes)
}

// shows makes the watch show a new version of a pod.
func (f *fixture) shows(pod *corev1.Pod) {
	f.t.Helper()
	pod.ResourceVersion = f.version()
	if err := f.pods.Update(pod); err != nil {
		f.t.Fatal(err)
	}
}

// deleted makes the watch show that a pod is gone.
func (f *fixture) deleted(pod *corev1.Pod) {
	f.t.Helper()
	if err := f.pods.Delete(pod); err != nil {
		f.t.Fatal(err)
	}
}

// list breaks the watch, and then lists the current pods.
func (f *fixture) list(pods ...*corev1.Pod) {
	f.t.Helper()
	var all []any
	for _, pod := range pods {
		all = append(all, pod)
	}
	if err := f.pods.Replace(all, ""); err != nil {
		f.t.Fatal(err)
	}
}

// bind plays another scheduler that binds the pod.
func (f *fixture) bind(pod *corev1.Pod, node string) *corev1.Pod {
	f.t.Helper()
	now := bound(pod, node)
	f.shows(now)
	return now
}

func bound(pod *corev1.Pod, node string) *corev1.Pod {
	now := pod.DeepCopy()
	now.Spec.NodeName = node
	return now
}

// answer makes the kubelet decide, and the API show the result.
func (f *fixture) answer(pod *corev1.Pod) {
	f.t.Helper()
	f.shows(f.decide(pod))
}

// decide makes the kubelet decide, and returns the pod with the result.
func (f *fixture) decide(pod *corev1.Pod) *corev1.Pod {
	f.t.Helper()
	ask, err := wire.ReadPod(pod)
	if err != nil {
		f.t.Fatal(err)
	}
	var d placement.Decision
	now, state := pod.DeepCopy(), f.states[pod.Spec.NodeName]
	switch v := placement.Decide(state, &ask.Request, &d); {
	case v.OK():
		state.Commit(&ask.Request, &d)
		at := metav1.NewTime(f.clock.Now())
		now.Status.StartTime, now.Status.Phase, now.Status.ContainerStatuses = &at, corev1.PodRunning, []corev1.ContainerStatus{{Name: "c"}}
	default:
		f.refuse(now, v.Reason.String())
	}
	return now
}

// refuses makes the kubelet refuse the pod for a reason, and the API show this.
func (f *fixture) refuses(pod *corev1.Pod, reason string) {
	now := pod.DeepCopy()
	f.refuse(now, reason)
	f.shows(now)
}

func (f *fixture) refuse(pod *corev1.Pod, reason string) {
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, reason, "Pod was rejected: it does not fit"
}

func (f *fixture) want(what string, want shadow.Tally) {
	f.t.Helper()
	got := f.View().Total
	got.Placed, want.Placed, got.RejectedPinned, want.RejectedPinned = nil, nil, 0, 0
	if want.NotJudged == nil {
		want.NotJudged = map[shadow.Reason]int{}
	}
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
		f.t.Errorf("%s:\n%s\nwant\n%s", what, a, b)
	}
}

// TestWitness plays several pods: ones that fit, one that a kubelet rejects although another node
// would have admitted it, and one for which nothing is pinned.
func TestWitness(t *testing.T) {
	f := newFixture(t)
	f.node("n")
	f.node("m")
	a, b, c := f.bind(f.pod("a", 4), "n"), f.bind(f.pod("b", 8), "n"), f.bind(f.pod("c", 4), "n")
	for _, pod := range []*corev1.Pod{a, b, c} {
		f.answer(pod)
	}
	shared := f.pod("shared", 1)
	shared.Spec.Containers[0].Resources, shared.Status.QOSClass = corev1.ResourceRequirements{}, corev1.PodQOSBestEffort
	f.answer(f.bind(shared, "n"))
	if v := f.View(); v.Open != 3 {
		t.Errorf("%d wait for an answer before the report", v.Open)
	}
	f.report("n")
	f.want("in the end", shadow.Tally{Pods: 4, Pinned: 3, Judged: 4, Rejected: 1, Foretold: 1, Exact: 3, Elsewhere: 1})
	v := f.View()
	if v.Open != 0 || len(v.Pods) != 1 || v.Pods[0].Instead == nil || v.Pods[0].Instead.Node != "m" || v.Pods[0].Got.Reason != tae {
		t.Errorf("%+v", v)
	}
	if want := "kube-scheduler placed 3 pinned pods; 1 was rejected; Berth would have placed 1 rejected pod elsewhere."; v.Summary != want {
		t.Errorf("%q, want %q", v.Summary, want)
	}
}

// TestForeseen: if too much is open at the Binding, the prediction is made with a later report, but
// not after the answer.
func TestForeseen(t *testing.T) {
	for name, answered := range map[string]bool{"before the answer": false, "after the answer": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n")
			const many = 12
			var leaving []*corev1.Pod
			for i := range many { // deleted before the kubelet sees them
				leaving = append(leaving, f.bind(f.pod(fmt.Sprint("p", i), 1), "n"))
			}
			now := metav1.NewTime(f.clock.Now())
			for i, pod := range leaving {
				leaving[i] = pod.DeepCopy()
				leaving[i].DeletionTimestamp = &now
				f.shows(leaving[i])
			}
			x := f.bind(f.pod("x", 2), "n")
			for _, pod := range leaving {
				f.deleted(pod)
			}
			if answered {
				f.answer(x)
			}
			f.clock.Step(10 * time.Second)
			f.states["n"].Release(string(x.UID)) // the report was written before the kubelet decided
			f.report("n")
			want := shadow.Tally{Pods: many + 1, Pinned: many + 1, NotJudged: map[shadow.Reason]int{shadow.NeverSeen: many}}
			if answered {
				want.NotJudged[shadow.Undecided] = 1
				f.want("after the answer", want)
				return
			}
			f.want("after the report", want)
			f.answer(x)
			f.report("n")
			want.Judged, want.Exact = 1, 1
			f.want("in the end", want)
		})
	}
}

// TestNotJudged: each kind of bad input is named, and counts neither as right nor as wrong.
func TestNotJudged(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*fixture)
		after  func(*fixture, *corev1.Pod)
		want   shadow.Reason
	}{
		"no agent": {after: func(f *fixture, p *corev1.Pod) { f.states["n"] = f.model.NewState(); f.answer(p) }, want: shadow.NoAgent},
		"an agent that fell silent": {before: func(f *fixture) { f.node("n"); f.clock.Step(2 * time.Minute) },
			after: (*fixture).answer, want: shadow.LateAgent},
		"an agent that comes late": {after: func(f *fixture, p *corev1.Pod) {
			f.states["n"] = f.model.NewState()
			f.answer(p)
			f.report("n")
		}, want: shadow.NoAgent},
		"an agent that falls silent before it tells of an admission": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.answer(p)
			f.expire()
		}, want: shadow.LateAgent},
		"an agent that falls silent before a rejection counts": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.refuses(p, tae)
			f.expire()
		}, want: shadow.LateAgent},
		"a kubelet that does not answer": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, _ *corev1.Pod) {
			f.alive("n")
			f.expire()
		}, want: shadow.NoAnswer},
		"a report that comes twice": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.refuses(p, tae)
			f.again() // a user has labeled the object, so that its version is new
			f.started = f.clock.Now()
			f.report("n")
		}, want: shadow.KubeletRestarted},
		"a heartbeat that comes twice": {before: func(f *fixture) { f.node("n"); f.alive("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.refuses(p, tae)
			f.alive("n")
			f.started = f.clock.Now()
			f.report("n")
		}, want: shadow.KubeletRestarted},
		"a report from a backup": {before: func(f *fixture) { f.node("n"); f.seq += 10; f.report("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.refuses(p, tae)
			f.seq -= 5
			f.report("n")
			f.seq += 10
			f.started = f.clock.Now()
			f.report("n")
		}, want: shadow.KubeletRestarted},
		"a clock that is two centuries ahead":   {before: func(f *fixture) { f.ahead = 200 * 365 * 24 * time.Hour; f.node("n") }, after: (*fixture).answer, want: shadow.Clocks},
		"a clock that is at its very beginning": {before: func(f *fixture) { f.ahead = -time.Duration(f.clock.Now().UnixNano()); f.node("n") }, after: (*fixture).answer, want: shadow.Clocks},
		"a clock of our own that jumps a year":  {before: func(f *fixture) { f.node("n"); f.clock.Step(365 * 24 * time.Hour) }, after: (*fixture).answer, want: shadow.LateAgent},
		"a node with a new name": {before: func(f *fixture) { f.node("before") }, after: func(f *fixture, p *corev1.Pod) {
			f.states["n"] = f.states["before"]
			f.answer(p)
			f.report("n")
		}, want: shadow.NoAgent},
		"a node that is made again": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.feed.ReportGone("n")
			f.seq, f.generation = 0, "-again"
			f.answer(p)
			f.report("n")
		}, want: shadow.NoAgent},
		"a node that is made again while the watch is broken": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.seq, f.generation, f.started = 0, "-again", f.clock.Now()
			f.states["n"] = f.model.NewState()
			f.answer(p)
			f.report("n")
		}, want: shadow.KubeletRestarted},
		"a name that a second pod takes": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, _ *corev1.Pod) {
			second := f.pod("p", 2)
			second.UID = "second"
			f.bind(second, "n")
		}, want: shadow.NeverSeen},
		"a UID that a second node gets": {before: func(f *fixture) { f.node("n"); f.node("m") }, after: func(f *fixture, p *corev1.Pod) {
			f.bind(p, "m")
		}, want: shadow.NeverSeen},
		"a UID that a second node gets after the answer": {before: func(f *fixture) { f.node("n"); f.node("m") }, after: func(f *fixture, p *corev1.Pod) {
			f.refuses(p, tae)
			f.bind(p, "m")
		}, want: shadow.NeverSeen},
		"an agent that wrote before the kubelet answered": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			early := f.written("n") // the watch of reports is later than that of pods
			f.refuses(p, tae)
			f.feed.ReportSeen(early)
			f.started = f.clock.Now()
			f.report("n")
		}, want: shadow.KubeletRestarted},
		"an agent of another release": {before: func(f *fixture) {
			f.spoil = func(nt *v1alpha1.NodeTopology) { nt.Malformed = "spec: a list" }
			f.node("n")
		}, after: (*fixture).answer, want: shadow.OlderAgent},
		"an agent that is replaced by one of another release before the answer": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.spoil = func(nt *v1alpha1.NodeTopology) { nt.Malformed = "spec: a list" }
			f.report("n")
			f.answer(p)
		}, want: shadow.OlderAgent},
		"an agent that is replaced by one that does not say when the kubelet started": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.started = time.Time{}
			f.answer(p)
			f.report("n")
		}, want: shadow.OlderAgent},
		"an older agent":         {before: func(f *fixture) { f.started = time.Time{}; f.node("n") }, after: (*fixture).answer, want: shadow.OlderAgent},
		"a clock that is ahead":  {before: func(f *fixture) { f.ahead = time.Hour; f.node("n") }, after: (*fixture).answer, want: shadow.Clocks},
		"a clock that is behind": {before: func(f *fixture) { f.ahead = -time.Hour; f.node("n") }, after: (*fixture).answer, want: shadow.Clocks},
		"a clock that jumps before the answer": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.answer(p)
			f.ahead = time.Hour
			f.report("n")
		}, want: shadow.Clocks},
		"a report that contradicts itself": {before: func(f *fixture) {
			f.node("n")
			f.spec.Config.CPUManagerPolicy = "nonsense"
			f.report("n")
		}, after: (*fixture).answer, want: shadow.BadReport},
		"a kubelet that starts again": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.answer(p)
			f.started = f.clock.Now()
			f.report("n")
		}, want: shadow.KubeletRestarted},
		"a kubelet that starts again and refuses": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.refuses(p, "UnexpectedAdmissionError")
			f.started = f.clock.Now()
			f.report("n")
		}, want: shadow.KubeletRestarted},
		"a kubelet that starts again and takes what it would have refused": {before: func(f *fixture) {
			f.node("n")
			f.answer(f.bind(f.pod("first", 7), "n"))
			f.report("n")
			f.answer(f.bind(f.pod("second", 7), "n"))
			f.report("n")
			f.book = shadow.NewBook()
		}, after: func(f *fixture, p *corev1.Pod) {
			f.states["n"] = f.model.NewState()
			f.answer(p)
			f.started = f.clock.Now()
			f.report("n")
		}, want: shadow.KubeletRestarted},
		"a kubelet that started before the news of the Binding": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.deleted(p)
			f.book = shadow.NewBook()
			early := bound(f.pod("early", 2), "n")
			early.ResourceVersion = f.version()
			f.started = f.clock.Now()
			f.report("n")
			if err := f.pods.Update(early); err != nil {
				f.t.Fatal(err)
			}
			f.answer(early)
			f.report("n")
		}, want: shadow.KubeletRestarted},
		"a pod that is being deleted when it is bound": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.deleted(p)
			f.book = shadow.NewBook()
			going := f.pod("going", 2)
			going.DeletionTimestamp = new(metav1.NewTime(f.clock.Now()))
			f.deleted(f.bind(going, "n"))
		}, want: shadow.NeverSeen},
		"a pod that is deleted first": {before: func(f *fixture) { f.node("n") }, after: (*fixture).deleted, want: shadow.NeverSeen},
		"a report that goes":          {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) { f.feed.ReportGone("n"); f.answer(p) }, want: shadow.NoAgent},
		"another rule": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, p *corev1.Pod) {
			f.refuses(p, "OutOfcpu")
			f.alive("n")
		}, want: shadow.OtherRule},
		"a pod nobody can read": {before: func(f *fixture) { f.node("n") }, after: func(f *fixture, _ *corev1.Pod) {
			p := f.pod("odd", 1)
			p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("-1")
			p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
			f.deleted(f.bind(p, "n"))
		}, want: shadow.Unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if c.before != nil {
				c.before(f)
			}
			c.after(f, f.bind(f.pod("p", 2), "n"))
			v := f.View()
			if v.Total.NotJudged[c.want] != 1 || v.Total.Judged != 0 {
				t.Errorf("%d open, %+v: want 1 %s", v.Open, v.Total, c.want)
			}
		})
	}
}

// TestJudgedAllTheSame: input that only looks bad is judged.
func TestJudgedAllTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*fixture)
		want shadow.Tally
	}{
		"an old report whose object is labelled": {func(f *fixture) {
			f.clock.Step(50 * time.Second)
			f.alive("n")
			f.clock.Step(50 * time.Second)
			f.alive("n")
			f.again()
			f.answer(f.bind(f.pod("p", 2), "n"))
			f.report("n")
		}, shadow.Tally{Pods: 1, Pinned: 1, Judged: 1, Exact: 1}},
		"a pod that has ended before a report": {func(f *fixture) {
			p := f.decide(f.bind(f.pod("p", 2), "n"))
			f.shows(p)
			f.states["n"].Release(string(p.UID))
			p = p.DeepCopy()
			p.Status.Phase = corev1.PodSucceeded
			f.shows(p)
			f.alive("n")
		}, shadow.Tally{Pods: 1, Pinned: 1, Judged: 1, ByVerdict: 1}},
		"a node that was made again, and the pods after it": {func(f *fixture) {
			f.feed.ReportGone("n")
			f.seq, f.generation, f.started = 0, "-again", f.clock.Now()
			f.report("n")
			f.answer(f.bind(f.pod("p", 2), "n"))
			f.report("n")
		}, shadow.Tally{Pods: 1, Pinned: 1, Judged: 1, Exact: 1}},
		"a static pod, which no scheduler binds": {func(f *fixture) {
			p := f.pod("p", 2)
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n"}}
			f.answer(f.bind(p, "n"))
			f.report("n")
		}, shadow.Tally{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n")
			c.do(f)
			f.want("in the end", c.want)
			if v := f.View(); v.Open != 0 {
				t.Errorf("%d wait for an answer", v.Open)
			}
		})
	}
}

// TestAnAnswerThatComesFirst: if a pod's kubelet has answered before the pod is seen, there is no
// prediction.
func TestAnAnswerThatComesFirst(t *testing.T) {
	f := newFixture(t)
	f.node("n")
	p := f.pod("p", 2)
	f.refuse(p, tae)
	f.bind(p, "n")
	f.want("refused", shadow.Tally{Pods: 1, Pinned: 1, Rejected: 1, NotJudged: map[shadow.Reason]int{shadow.AnsweredFirst: 1}})
}

// TestLists: a list does not show in which order its pods were bound, so that nothing is predicted
// for them. For pods with an earlier prediction, it has the kubelet's answer.
func TestLists(t *testing.T) {
	f := newFixture(t)
	f.node("n")
	f.node("m")
	f.pods.begun.Store(false)
	ran, waits := bound(f.pod("ran", 2), "n"), bound(f.pod("waits", 2), "n")
	ran.ResourceVersion, waits.ResourceVersion = f.version(), f.version()
	ran = f.decide(ran)
	f.list(ran, waits)
	f.want("at the start", shadow.Tally{Pods: 1, Pinned: 1, NotJudged: map[shadow.Reason]int{}})
	waits = f.decide(waits)
	f.shows(waits)
	f.want("with its answer", shadow.Tally{Pods: 1, Pinned: 1, NotJudged: map[shadow.Reason]int{shadow.Listed: 1}})
	f.report("n")
	f.report("m")

	here, there := f.bind(f.pod("here", 2), "n"), f.bind(f.pod("there", 7), "m")
	late, refused := bound(f.pod("late", 2), "n"), bound(f.pod("refused", 8), "m")
	late.ResourceVersion, refused.ResourceVersion = f.version(), f.version()
	late = f.decide(late) // earlier than the pod that was bound first: a list has no order
	here, there, refused = f.decide(here), f.decide(there), f.decide(refused)
	here.ResourceVersion, there.ResourceVersion, refused.ResourceVersion = f.version(), f.version(), f.version()
	f.list(ran, waits, late, here, there, refused)
	f.report("n")
	f.report("m")
	v := f.View()
	if v.Open != 0 || v.Total.Pods != 5 || v.Total.NotJudged[shadow.AnsweredFirst] != 2 || v.Total.Wrong+v.Total.Missed+v.Total.FalseAlarms != 0 {
		t.Errorf("%d open, %+v: want none wrong, and two whose answers came first", v.Open, v.Total)
	}
	f.list()
	if left := f.pods.ListKeys(); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// wrong makes a prediction wrong: the node's state differs from its agent's reports.
func (f *fixture) wrong(name string) *corev1.Pod {
	f.t.Helper()
	p := f.bind(f.pod(name, 2), "n")
	stranger := f.pod("stranger-"+name, 2)
	ask, err := wire.ReadPod(stranger)
	if err != nil {
		f.t.Fatal(err)
	}
	var d placement.Decision
	if v := placement.Decide(f.states["n"], &ask.Request, &d); !v.OK() {
		f.t.Fatal(v)
	}
	f.states["n"].Commit(&ask.Request, &d)
	f.answer(p)
	f.states["n"].Release(ask.Request.UID)
	f.report("n")
	return p
}

// TestAMistakeIsCaptured: the state behind a wrong prediction is kept as a snapshot without
// secrets, which gives the same answer again.
func TestAMistakeIsCaptured(t *testing.T) {
	f := newFixture(t)
	f.node("n")
	f.wrong("p")
	v := f.View()
	if v.Total.Wrong != 1 || len(v.Pods) != 1 || v.Pods[0].Capture == "" {
		t.Fatalf("%+v", v)
	}
	get := func(path string) []byte {
		out := httptest.NewRecorder()
		f.Handler().ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		return out.Body.Bytes()
	}
	data := get("/captures/" + v.Pods[0].Capture)
	c, err := survey.Open(bytes.NewReader(data), "capture")
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace = "d"
	e, err := query.Explain(t.Context(), c, c.Namespace, "p", "")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(e)
	if want := `"numaNodes":"` + v.Pods[0].Expected.NUMANodes + `"`; !strings.Contains(string(again), want) || !strings.Contains(string(again), `"answer":"admits"`) {
		t.Errorf("the capture does not say %s: %s", want, again)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(unpacked); err != nil || bytes.Contains(all, []byte("hunter2")) || !bytes.Contains(all, []byte(`"uid-p"`)) {
		t.Errorf("error %v, or the capture holds a secret, or not the pod: %s", err, all)
	}
	if text := string(get("/captures/none.berth")); !strings.Contains(text, `there is no capture "none.berth"`) {
		t.Errorf("%q", text)
	}
	if text := string(get("/metrics")); !strings.Contains(text, `berth_shadow_pods_total{result="wrong"} 1`) || !strings.Contains(text, `berth_shadow_pods_total{result="missed"} 0`) {
		t.Errorf("%s", text)
	}
	var view shadow.View
	if err := json.Unmarshal(get("/shadow"), &view); err != nil || view.Total.Wrong != 1 {
		t.Errorf("%+v, %v", view, err)
	}
	for i := range maxCaptures + 5 {
		f.wrong(fmt.Sprint("p", i))
	}
	if len(f.captures) > maxCaptures {
		t.Errorf("%d captures", len(f.captures))
	}
}

// TestEvidenceGoesWithItsPod: the data of a prediction is removed when the prediction is judged.
func TestEvidenceGoesWithItsPod(t *testing.T) {
	f := newFixture(t)
	f.node("n")
	settled, gone := f.bind(f.pod("a", 2), "n"), f.bind(f.pod("b", 2), "n")
	if len(f.evidence) != 2 || len(f.reports) != 1 {
		t.Errorf("%d and %d", len(f.evidence), len(f.reports))
	}
	f.answer(settled)
	f.deleted(gone)
	f.report("n")
	f.feed.ReportGone("n")
	if len(f.evidence) != 0 || len(f.reports) != 0 {
		t.Errorf("%d and %d are left", len(f.evidence), len(f.reports))
	}
}

// TestWhatCannotBeLookedFor: pods with constraints that are not supported here, and pods for which
// no time is left, are counted as such.
func TestWhatCannotBeLookedFor(t *testing.T) {
	f := newFixture(t)
	f.node("n")
	f.node("m")
	f.answer(f.bind(f.pod("a", 7), "n"))
	f.answer(f.bind(f.pod("b", 8), "n"))
	f.report("n")
	tied := f.pod("tied", 4)
	tied.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}}
	f.bind(tied, "n")
	if v := f.View(); v.Total.NotLooked != 1 {
		t.Errorf("%+v", v.Total)
	}
	away := f.pod("away", 4)
	away.Spec.NodeSelector = map[string]string{"pool": "other"}
	f.bind(away, "n")
	f.spent(time.Minute)
	f.bind(f.pod("late", 4), "n")
	if v := f.View(); v.Total.NotLooked != 2 {
		t.Errorf("%+v", v.Total)
	}
	f.clock.Step(30 * time.Minute)
	f.report("m")
	f.report("n")
	f.bind(f.pod("later", 4), "n")
	if v := f.View(); v.Total.NotLooked != 2 {
		t.Errorf("the time has come back: %+v", v.Total)
	}
}

// TestPromisesOfBerth: if Berth schedules, the promises in its Bindings are judged in the same way.
func TestPromisesOfBerth(t *testing.T) {
	f := newFixture(t)
	f.node("n")
	bind := func(name string, change func(*placement.Decision)) {
		t.Helper()
		pod := f.pod(name, 2)
		ask, err := wire.ReadPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		var d placement.Decision
		if v := placement.Decide(f.states["n"], &ask.Request, &d); !v.OK() {
			t.Fatal(v)
		}
		change(&d)
		f.seq++
		text, err := wire.WritePlacement(&wire.Placement{Sequence: uint64(f.seq), Report: f.seq, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: d})
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations = map[string]string{wire.PlacementAnnotation: text}
		f.answer(f.bind(pod, "n"))
		f.report("n")
	}
	bind("kept", func(*placement.Decision) {})
	bind("broken", func(d *placement.Decision) { d.Containers[0].CPUs = topology.NewCPUSet(7, 15) })
	f.want("in the end", shadow.Tally{Pods: 2, Pinned: 2, Judged: 2, Exact: 1, Wrong: 1})
}
