package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/handover"
	"github.com/berth-dev/berth/internal/scheduler/lead"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/outcome"
	"github.com/berth-dev/berth/internal/scheduler/refit"
	"github.com/berth-dev/berth/internal/scheduler/reservation"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

// activations counts how often each pod was woken.
type activations map[string]int

func (a activations) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for name := range pods {
		a[strings.TrimPrefix(name, "default/")]++
	}
}

// The texts about unreliable nodes.
const (
	noReport    = wire.NoReport
	noHeartbeat = wire.NoSignOfLife
	wentBack    = "its report is older than the one before, and its agent has not confirmed it yet"
)

// refusal explains why the named node cannot be predicted now; "" if it can.
func (f *fixture) refusal(name string) string {
	if why := f.table.Unusable(f.table.Named(name)); why != nil {
		return why.Text
	}
	return ""
}

// fixture is a plugin without a framework.
type fixture struct {
	testing.TB
	*Plugin
	*core
	clock    *testingclock.FakeClock
	wakeEdge *wakeEdge
	woken    activations
	events   *events.FakeRecorder
	// The kubelet of node n.
	model *placement.Model
	state *placement.State
	spec  wire.NodeSpec
	seq   int64
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	args, err := ParseArgs(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{TB: t, clock: testingclock.NewFakeClock(time.Unix(1000, 0)), woken: activations{}, events: events.NewFakeRecorder(100)}
	f.wakeEdge = &wakeEdge{clock: f.clock, activator: f.woken, logger: klog.Background()}
	table, w := nodes.NewTable(f.clock, args.StaleAfter.Duration), wake.New(f.wakeEdge)
	f.core = &core{clock: f.clock, pods: newPods(unknownPods{}), lead: new(lead.Gate), outcomes: outcome.NewWriter(outcome.Options{}), events: f.events, table: table, waiters: w, feed: nodes.NewFeed(nodes.FeedOptions{
		Table: table, Waiters: w, Changed: func() { f.gangs.Stir() }, SettleAfter: args.SettleAfter.Duration, Exists: func(string) bool { return true },
		Logger: klog.Background(), Events: f.events, Metrics: feedMetrics{}})}
	f.core.pauses = newGroupPauses(f.clock, func(pods map[string]*corev1.Pod) { f.woken.Activate(klog.Background(), pods) })
	f.core.gangs = gang.New(gang.Options{Clock: f.clock, Events: f.events, Ours: func(string) bool { return true }})
	f.core.refits = refit.New(refit.Options{Table: table})
	f.core.reservations = reservation.New(reservation.Options{Clock: f.clock, Lead: new(lead.Gate), Events: f.events})
	f.Plugin = &Plugin{args: args, core: f.core, ownClaims: func() claims { return nil }, profile: &nodes.Profile{Table: table, Scoring: args.Scoring}}
	f.lead()
	f.useMachine("package:2 numa:1 core:4 pu:2 mem:16Gi dist:10,21")
	return f
}

// useMachine gives nodes in later reports another machine.
func (f *fixture) useMachine(text string) {
	f.Helper()
	m := shapes.Machine(text)
	f.spec = wire.NodeSpec{Machine: m, View: made.View(f.TB, m), Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
		Config: placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"}}
	f.model = made.ModelOf(f.TB, f.spec.View, f.spec.Config)
	f.state = f.model.NewState()
}

// unknownPods is a lister that has no pod and cannot tell whether a pod is gone.
type unknownPods struct {
	corelisters.PodLister
	corelisters.PodNamespaceLister
}

func (unknownPods) Pods(string) corelisters.PodNamespaceLister { return unknownPods{} }

func (unknownPods) Get(string) (*corev1.Pod, error) {
	return nil, errors.New("nothing is known of pods")
}

func (unknownPods) List(labels.Selector) ([]*corev1.Pod, error) { return nil, nil }

// heldLease is the bindings Lease of a scheduler without a predecessor.
type heldLease struct {
	coordinationclient.LeaseInterface
}

func (heldLease) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), handover.LeaseName)
}

func (heldLease) Create(_ context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l, nil
}

func (heldLease) Update(_ context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l, nil
}

// lead makes the plugin a leader that places pods. The Lease has its own clock, so that the tests'
// clock has only the tests' timers.
func (f *fixture) lead() {
	done := make(chan struct{})
	f.takeOverBy(handover.Options{Leases: heldLease{}, Pods: fake.NewClientset().CoreV1(), Clock: testingclock.NewFakeClock(f.clock.Now()), Logger: klog.Background(), SettleAfter: f.args.SettleAfter.Duration})
	f.handover.Done = func() { close(done) }
	f.ready.Store(true)
	f.handover.Synced()
	f.notYet(f.Context())
	<-done
}

// topology returns the current report of node n.
func (f *fixture) topology() *v1alpha1.NodeTopology {
	f.Helper()
	f.seq++
	r := wire.Report{Sequence: f.seq, Snapshot: f.state.Snapshot(), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reported"}}}
	r.Pods = make([]wire.ReportedPod, len(r.Snapshot.Pods))
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: "n", Spec: f.spec, Report: r})
	if err != nil {
		f.Fatal(err)
	}
	nt.UID = "topology"
	return nt
}

func (f *fixture) admit(pod *corev1.Pod) {
	f.Helper()
	ask, err := wire.ReadPod(pod)
	if err != nil {
		f.Fatal(err)
	}
	var d placement.Decision
	if v := placement.Decide(f.state, &ask.Request, &d); !v.OK() {
		f.Fatalf("%s: %+v", pod.Name, v)
	}
	f.state.Commit(&ask.Request, &d)
}

func pinned(name string, cpus int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), CreationTimestamp: metav1.Unix(500, 0)},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Mi")}}}}},
		Status: corev1.PodStatus{QOSClass: corev1.PodQOSGuaranteed},
	}
}

func on(pod *corev1.Pod, nodeName string) *corev1.Pod {
	pod.Spec.NodeName = nodeName
	return pod
}

// attempt begins an attempt to place a pod.
func (f *fixture) attempt(pod *corev1.Pod, r *placement.Request) *cycle {
	c := f.cycleFor(pod, &wire.Ask{Request: *r})
	c.way.(*alone).wait(c, pod)
	return c
}

// wait makes a pod want a node.
func (f *fixture) wait(pod *corev1.Pod) *ledger.Candidate {
	f.Helper()
	ask, err := wire.ReadPod(pod)
	if err != nil {
		f.Fatal(err)
	}
	c := f.table.Candidate(pod, &ask.Request)
	f.waiters.Add(waiterOf(pod), &c)
	return &c
}

// fill gives all CPUs of node n to two pods.
func (f *fixture) fill() (one, two *corev1.Pod) {
	f.Helper()
	one, two = pinned("one", 7), pinned("two", 8)
	f.admit(one)
	f.admit(two)
	f.feed.ReportSeen(f.topology())
	f.feed.PodSeen(on(one, "n"), false)
	f.feed.PodSeen(on(two, "n"), false)
	return one, two
}

func (f *fixture) want(what string, pod *corev1.Pod, want ledger.Outcome) {
	f.Helper()
	if a := f.table.Named("n").Account().View().Ask(ledger.Question{Candidate: f.wait(pod)}); a.Outcome != want {
		f.Fatalf("%s: %v, want %v", what, a.Outcome, want)
	}
}

func TestFeedWakesWhenAReportMakesRoom(t *testing.T) {
	f := newFixture(t)
	one, _ := f.fill()
	f.want("full", pinned("x", 4), ledger.Refused)
	clear(f.woken)

	one = one.DeepCopy()
	one.DeletionTimestamp = &metav1.Time{}
	f.feed.PodSeen(one, false)
	f.want("one is ending", pinned("x", 4), ledger.Waiting)
	f.feed.PodGone(one)
	f.want("one is gone from the API, not from the node", pinned("x", 4), ledger.Waiting)
	if len(f.woken) > 0 {
		t.Errorf("woken for nothing: %v", f.woken)
	}
	f.state.Release(string(one.UID))
	f.feed.ReportSeen(f.topology())
	f.want("the report has it no more", pinned("x", 4), ledger.Admitted)
	if f.woken["x"] == 0 {
		t.Error("x sleeps on")
	}
}

func TestFeedTakesNobodysWordForAPlacement(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	forged := on(pinned("forged", 2), "n")
	forged.Annotations = map[string]string{wire.PlacementAnnotation: `{"v":1,"seq":1,"uid":"somebody","certainty":"exact","guarantee":"full","containers":[]}`}
	f.feed.PodSeen(forged, false)
	if c := f.table.Named("n").Account().View().Census(); c.Afloat != 1 || c.Posted != 0 {
		t.Errorf("%+v: want a pod whose order is not known", c)
	}
	select {
	case e := <-f.events.Events:
		if !strings.Contains(e, "PlacementIgnored") {
			t.Errorf("event %q", e)
		}
	default:
		t.Error("no event")
	}
}

func TestFeedRefusesReports(t *testing.T) {
	for want, spoil := range map[string]func(*v1alpha1.NodeTopology){
		"restrictd":   func(nt *v1alpha1.NodeTopology) { nt.Spec.TopologyManager.Policy = "restrictd" },
		"machine":     func(nt *v1alpha1.NodeTopology) { nt.Spec.Machine = "package:two" },
		"authority":   func(nt *v1alpha1.NodeTopology) { nt.Spec.Authority = v1alpha1.AuthorityBerth },
		"None ":       func(nt *v1alpha1.NodeTopology) { nt.Spec.MemoryManager.Policy = "None " },
		"sharedCPUs":  func(nt *v1alpha1.NodeTopology) { nt.Status.SharedCPUs = "0-99" },
		"not Ready":   func(nt *v1alpha1.NodeTopology) { nt.Status.Conditions[0].Status = metav1.ConditionFalse },
		"1.99":        func(nt *v1alpha1.NodeTopology) { nt.Spec.KubeletVersion = "v1.99.0" },
		"shared pool": func(nt *v1alpha1.NodeTopology) { nt.Status.SharedCPUs = "1" },
	} {
		f := newFixture(t)
		good := f.topology()
		f.feed.ReportSeen(good)
		if why := f.refusal("n"); why != "" {
			t.Fatalf("a good report: %s", why)
		}
		bad := f.topology()
		spoil(bad)
		f.feed.ReportSeen(bad)
		why := f.refusal("n")
		if why == "" || want != "shared pool" && want != "1.99" && !strings.Contains(why, want) {
			t.Errorf("%s: refused with %q", want, why)
		}
		f.feed.ReportSeen(f.topology())
		if why := f.refusal("n"); why != "" {
			t.Errorf("%s: not trusted again: %s", want, why)
		}
	}
}

func TestFeedListensForSignsOfLife(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	f.wait(pinned("x", 1))
	f.clock.Step(2 * time.Minute)
	n := f.table.Named("n")
	if why := f.refusal(n.Name()); why != noHeartbeat {
		t.Fatalf("after two minutes: %q", why)
	}
	f.feed.HeartbeatSeen(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "somebody-else"}})
	f.feed.HeartbeatSeen(vouched(""))
	if why := f.refusal(n.Name()); why != "" {
		t.Errorf("after a heartbeat: %q", why)
	}
	if f.woken["x"] == 0 {
		t.Error("x sleeps on")
	}
	f.feed.ReportGone("n")
	if why := f.refusal(n.Name()); why != noReport {
		t.Errorf("without a NodeTopology: %q", why)
	}
}

func TestWaitersAreWokenByWhomTheyBlame(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	pod := pinned("x", 4)
	f.wait(pod)
	f.blame(pod, nil, []*nodes.Node{f.table.Named("other")})
	f.admit(pinned("y", 8))
	f.feed.ReportSeen(f.topology())
	f.state.Release("uid-y")
	f.feed.ReportSeen(f.topology())
	if f.woken["x"] > 0 {
		t.Error("woken by a node that somebody else keeps it from")
	}
	f.blame(pod, nil, []*nodes.Node{f.table.Named("n")})
	f.feed.ReportGone("n")
	f.feed.ReportSeen(f.topology())
	if f.woken["x"] == 0 {
		t.Error("not woken by the node it waits for")
	}
	f.waiters.Done(uidOf(pod))
	if f.waiters.Len() != 0 {
		t.Error("still there")
	}
	before := f.woken["x"]
	f.waiters.WakeAll()
	f.waiters.WakeOne(uidOf(pod))
	if f.woken["x"] != before {
		t.Error("woken although done")
	}
}
