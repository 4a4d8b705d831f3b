package refit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// world has a node n on which Berth decides, with CPUs 1 to 7 on one NUMA node, and an API server
// that answers in order.
type world struct {
	*Refitter
	t      *testing.T
	client *fake.Clientset
	store  cache.Indexer
	table  *nodes.Table
	feed   *nodes.Feed
	events *events.FakeRecorder
	spec   wire.NodeSpec
	seq    int64
	// decided is what the agent has carried out, by UID.
	decided map[string]placement.PodAllocation
	// entered and left count calls of the handover; deposed makes Enter fail.
	entered, left int
	deposed       bool
	version       int
}

type sleepers struct{ clock *testingclock.FakeClock }

func (s sleepers) Now() time.Time            { return s.clock.Now() }
func (sleepers) After(time.Duration, func()) {}
func (sleepers) Activate([]wake.Pod)         {}

type uncounted struct{}

func (uncounted) PromiseSettled(ledger.Result) {}
func (uncounted) ReportRefused()               {}
func (uncounted) PlacementIgnored()            {}

func (w *world) Enter(context.Context) error {
	if w.deposed {
		return errors.New("deposed")
	}
	w.entered++
	return nil
}
func (w *world) Leave(error) { w.left++ }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset(), store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		events: events.NewFakeRecorder(100), decided: map[string]placement.PodAllocation{}}
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	w.table = nodes.NewTable(clock, time.Minute)
	w.feed = nodes.NewFeed(nodes.FeedOptions{Table: w.table, Waiters: wake.New(sleepers{clock}), SettleAfter: 5 * time.Second, Logger: klog.Background(),
		Exists: func(string) bool { return true }, Changed: func() {}, Events: w.events, Metrics: uncounted{}})
	w.Refitter = New(Options{Client: w.client.CoreV1(), Pods: corev1listers.NewPodLister(w.store), Table: w.table, Handover: w, Clock: clock, Logger: klog.Background(), Events: w.events,
		Ready: func(context.Context) bool { return true }})
	m := shapes.Machine("package:1 numa:1 core:8 pu:1 mem:16Gi")
	view := made.View(t, m)
	w.spec = wire.NodeSpec{Machine: m, View: view, Authority: v1alpha1.AuthorityBerth, KubeletVersion: "v1.36.3",
		Config: placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"}}
	w.report()
	return w
}

// report sends a report of what the agent has carried out.
func (w *world) report() {
	w.t.Helper()
	w.seq++
	r := wire.Report{Sequence: w.seq, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reported"}}}
	r.Snapshot.SharedCPUs = w.spec.Machine.Online
	for _, uid := range []string{"a", "b"} {
		if p, there := w.decided[uid]; there {
			r.Snapshot.Pods, r.Pods = append(r.Snapshot.Pods, p), append(r.Pods, wire.ReportedPod{Namespace: "ns", Name: uid})
			has := p.CPUs()
			r.Snapshot.SharedCPUs = r.Snapshot.SharedCPUs.AndNot(&has)
		}
	}
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: "n", Spec: w.spec, Report: r})
	if err != nil {
		w.t.Fatal(err)
	}
	nt.UID = "n"
	w.feed.ReportSeen(nt)
}

// carry makes the agent carry out the newest decision of a pod, and report it.
func (w *world) carry(pod *corev1.Pod) {
	w.t.Helper()
	p := w.placement(pod)
	held := *p.Decision.Held()
	held.Generation = p.Generation
	w.decided[string(pod.UID)] = held
	w.report()
}

func (w *world) placement(pod *corev1.Pod) wire.Placement {
	w.t.Helper()
	p, found, err := wire.ReadPlacement(pod)
	if err != nil || !found {
		w.t.Fatalf("%t, %v", found, err)
	}
	return p
}

func amounts(cpus string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("1Gi")}
}

// decided returns a container's part of the decision in its Binding.
func decided(name string, kind placement.ContainerKind, list string) placement.ContainerDecision {
	set, _ := topology.ParseCPUList(list)
	return placement.ContainerDecision{Name: name, Kind: kind, Hint: placement.Hint{NUMA: 1}, CPUs: set, Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 1 << 30}}}
}

// bind makes a running pod with the CPUs of list from its Binding. If there is a second list, the
// pod has a sidecar with those CPUs.
func (w *world) bind(name, cpus, list string, sidecar ...string) *corev1.Pod {
	w.t.Helper()
	var all []placement.ContainerDecision
	for _, list := range sidecar {
		all = append(all, decided("s", placement.Sidecar, list))
	}
	all = append(all, decided("c", placement.App, list))
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Authority: placement.AuthorityBerth,
		Decision: placement.Decision{UID: name, Containers: all}})
	if err != nil {
		w.t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{wire.PlacementAnnotation: text}},
		Spec:   corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: amounts(cpus), Limits: amounts(cpus)}}}},
		Status: corev1.PodStatus{QOSClass: corev1.PodQOSGuaranteed, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", AllocatedResources: amounts(cpus)}}}}
	for range sidecar {
		always := corev1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: amounts("1"), Limits: amounts("1")}}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", AllocatedResources: amounts("1")}}
	}
	if err := w.client.Tracker().Add(pod); err != nil {
		w.t.Fatal(err)
	}
	w.show(pod)
	w.carry(pod)
	return pod
}

// show makes the watch show a version of a pod.
func (w *world) show(pod *corev1.Pod) {
	w.t.Helper()
	w.version++
	pod.ResourceVersion = fmt.Sprint(w.version)
	if err := errors.Join(w.store.Update(pod), w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)); err != nil {
		w.t.Fatal(err)
	}
	w.feed.PodSeen(pod, false)
	w.Shown(pod)
}

// allocate makes the kubelet allocate this number of CPUs.
func (w *world) allocate(pod *corev1.Pod, cpus string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts(cpus), Limits: amounts(cpus)}
	pod.Status.ContainerStatuses[0].AllocatedResources = amounts(cpus)
	w.show(pod)
	return pod
}

// turn tries every pod that is due, until all its writes are done.
func (w *world) turn() {
	for _, name := range w.inTurn() {
		pod, err := w.Pods.Pods(name.Namespace).Get(name.Name)
		n := w.Table.Known("n")
		if err != nil || !w.misfits(pod) && !undone(pod) || w.Table.Unusable(n) != nil || !n.Obeys() {
			continue
		}
		if write := w.decide(pod, n); write != nil {
			write.do(w.t.Context())
		}
	}
}

// now returns the pod as the API server has it, and makes the watch show it.
func (w *world) now(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.show(pod)
	return pod
}

// wantCPUs compares the newest decision of a pod with CPUs and a generation.
func (w *world) wantCPUs(name, cpus string, generation uint64) *corev1.Pod {
	w.t.Helper()
	pod := w.now(name)
	p := w.placement(pod)
	if got := p.Decision.Containers[len(p.Decision.Containers)-1].CPUs.String(); got != cpus || p.Generation != generation {
		w.t.Errorf("%s has CPUs %s by decision %d, want %s by %d", name, got, p.Generation, cpus, generation)
	}
	return pod
}

func condition(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == wire.ResizeCondition {
			return string(c.Status) + " " + c.Reason + ": " + c.Message
		}
	}
	return ""
}

func TestPodsAreRefitted(t *testing.T) {
	w := newWorld(t)
	a := w.bind("a", "2", "1-2")
	w.turn()
	w.wantCPUs("a", "1-2", 0)
	w.allocate(a, "4")
	w.turn()
	a = w.wantCPUs("a", "1-4", 2)
	if got := condition(a); got != "True Resized: decision 2: c has CPUs 1-4 on NUMA nodes 0" {
		t.Errorf("condition %q", got)
	}
	if e := <-w.events.Events; !strings.Contains(e, "Normal Resized decision 2") {
		t.Errorf("event %q", e)
	}
	a = w.allocate(a, "1")
	w.turn()
	w.wantCPUs("a", "1-4", 2) // no report has shown the decision yet
	w.carry(a)
	w.turn()
	a = w.wantCPUs("a", "1", 3)
	if w.entered != 2 || w.left != 2 {
		t.Errorf("the handover was entered %d times and left %d times", w.entered, w.left)
	}
	w.carry(a)
	if due := len(w.inTurn()); due != 0 {
		t.Errorf("%d pods are due", due)
	}
}

// TestMembersOfGangsAreRefitted: after a member's Binding, changes of its resources do not concern
// the rest of the gang.
func TestMembersOfGangsAreRefitted(t *testing.T) {
	w := newWorld(t)
	a := w.bind("a", "2", "1-2")
	a.Annotations[wire.BoundForAnnotation] = wire.WriteBoundFor(a, wire.BoundFor{Gang: wire.GangKey{Source: wire.GangOfPods, Namespace: "ns", Name: "g"}, Whole: true})
	w.allocate(a, "4")
	w.turn()
	if a := w.wantCPUs("a", "1-4", 2); a.Annotations[wire.BoundForAnnotation] == "" {
		t.Error("its gang is gone")
	}
}

func TestSidecarsAreRefitted(t *testing.T) {
	w := newWorld(t)
	a := w.bind("a", "2", "1-2", "3").DeepCopy()
	a.Spec.InitContainers[0].Resources = corev1.ResourceRequirements{Requests: amounts("3"), Limits: amounts("3")}
	a.Status.InitContainerStatuses[0].AllocatedResources = amounts("3")
	w.show(a)
	w.turn()
	a = w.wantCPUs("a", "1-2", 2)
	if p := w.placement(a); p.Decision.Containers[0].CPUs.String() != "3-5" {
		t.Errorf("the sidecar has CPUs %s, want 3-5", p.Decision.Containers[0].CPUs)
	}
	w.carry(a)
	w.allocate(a, "3")
	w.turn()
	w.wantCPUs("a", "1-2,6", 3)
}

func TestAResizeIsDeferredAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	a, b := w.bind("a", "2", "1-2"), w.bind("b", "3", "3-5")
	w.allocate(a, "5")
	w.turn()
	a = w.wantCPUs("a", "1-2", 0)
	if got := condition(a); got != "False ResizeDeferred: container c: its new size is not possible on its NUMA nodes: too few CPUs are left" {
		t.Errorf("condition %q", got)
	}
	if e := <-w.events.Events; !strings.Contains(e, "Warning ResizeDeferred container c") {
		t.Errorf("event %q", e)
	}
	version := a.ResourceVersion
	w.turn()
	if again := w.wantCPUs("a", "1-2", 0); len(w.events.Events) != 0 {
		t.Errorf("told again, from version %s to %s", version, again.ResourceVersion)
	}
	w.feed.PodGone(b)
	delete(w.decided, "b")
	w.report()
	w.turn()
	w.wantCPUs("a", "1-5", 2)
}

// TestADeferredResizeIsTakenBack: the condition then shows that nothing is deferred.
func TestADeferredResizeIsTakenBack(t *testing.T) {
	w := newWorld(t)
	w.bind("b", "3", "3-5")
	w.allocate(w.bind("a", "2", "1-2"), "5")
	w.turn()
	a := w.wantCPUs("a", "1-2", 0)
	<-w.events.Events
	w.allocate(a, "2")
	w.turn()
	a = w.wantCPUs("a", "1-2", 0)
	if got := condition(a); got != "True Resized: the decision matches the amounts that the kubelet has allocated" {
		t.Errorf("condition %q", got)
	}
	if due := w.inTurn(); len(due) != 0 || len(w.events.Events) != 0 {
		t.Errorf("due %v, %d events", due, len(w.events.Events))
	}
}

// TestWhatIsNotServedIsNamed: the admission policy refuses these resizes. Without the policy, a
// condition has the reason.
func TestWhatIsNotServedIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"owner": {func(p *corev1.Pod) {
			p.Annotations[wire.BoundForAnnotation] = wire.WriteBoundFor(p, wire.BoundFor{Reservation: "r"})
		}, "uses a Reservation"},
		"Koordinator's": {func(p *corev1.Pod) { p.Annotations[wire.KoordinatorStatusAnnotation] = "{}" }, "says where it runs"},
		"Burstable":     {func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSBurstable }, "QoS class"},
		"pod-level":     {func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{} }, "spec.resources"},
		"half a CPU": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].AllocatedResources[corev1.ResourceCPU] = resource.MustParse("2500m")
		}, "container c: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.allocate(w.bind("a", "2", "1-2"), "3").DeepCopy()
			c.change(a)
			w.show(a)
			w.turn()
			if got := condition(w.wantCPUs("a", "1-2", 0)); !strings.HasPrefix(got, "False ResizeDeferred: ") || !strings.Contains(got, c.want) {
				t.Errorf("condition %q, want ...%s...", got, c.want)
			}
		})
	}
}

// TestLostAnswers: whatever happens to a write, the account has the same decision as the API. It
// has both decisions until the result is known.
func TestLostAnswers(t *testing.T) {
	lost, conflict := errors.New("no answer"), apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("changed"))
	for name, c := range map[string]struct {
		// answers are the results of the requests. If arrives is true for a request, it is written,
		// although its answer may be an error.
		answers []error
		arrives []bool
		// moves means that another client changes the pod before the answer.
		moves bool
		want  string
		gen   uint64
	}{
		"written":                       {[]error{nil}, []bool{true}, false, "1-4", 2},
		"refused":                       {[]error{conflict}, []bool{false}, false, "1-2", 0},
		"lost, and not written":         {[]error{lost, nil}, []bool{false, true}, false, "1-4", 2},
		"lost, and written":             {[]error{lost, conflict}, []bool{true, false}, false, "1-4", 2},
		"lost, and something was first": {[]error{lost, conflict}, []bool{false, false}, true, "1-2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.allocate(w.bind("a", "2", "1-2"), "4")
			clock := w.Clock.(*testingclock.FakeClock)
			asked := 0
			w.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				i := asked
				asked++
				if i >= len(c.answers) {
					t.Errorf("request %d", i+1)
					return true, nil, conflict
				}
				pod, err := w.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "ns", "a")
				if err != nil {
					t.Fatal(err)
				}
				now := pod.(*corev1.Pod).DeepCopy()
				if c.arrives[i] {
					if p := w.patched(now, action.(clienttesting.PatchAction).GetPatch()); p != nil {
						now = p
					}
				}
				if c.arrives[i] || c.moves {
					now.ResourceVersion += "0"
					if err := w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), now, "ns"); err != nil {
						t.Fatal(err)
					}
				}
				if free := w.free(); c.answers[i] != nil && free != 3 {
					t.Errorf("request %d: %d CPUs are free, want that both decisions count", i+1, free)
				}
				return true, now, c.answers[i]
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.turn()
			}()
			for {
				select {
				case <-done:
					w.wantCPUs("a", c.want, c.gen)
					if free, want := w.free(), map[uint64]int{0: 5, 2: 3}[c.gen]; free != want {
						t.Errorf("%d CPUs are free, want %d", free, want)
					}
					if asked != len(c.answers) {
						t.Errorf("%d requests, want %d", asked, len(c.answers))
					}
					return
				default:
					if clock.HasWaiters() {
						clock.Step(time.Minute)
					}
				}
			}
		})
	}
}

// TestTheVersionThatMakesAWriteFail: the watch shows this version while the decision is being
// written. The pod is then tried again.
func TestTheVersionThatMakesAWriteFail(t *testing.T) {
	w := newWorld(t)
	a := w.allocate(w.bind("a", "2", "1-2"), "4")
	w.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		w.show(a.DeepCopy())
		return true, nil, apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("changed"))
	})
	if !w.begin(a) {
		t.Fatal("it is not written")
	}
	if w.decide(a, w.Table.Known("n")).do(t.Context()) {
		t.Error("the write succeeds")
	}
	w.end(a.UID)
	if due := w.inTurn(); len(due) != 1 {
		t.Errorf("%d pods are due, want that it is tried again", len(due))
	}
}

// patched returns the pod with the annotations of a patch.
func (w *world) patched(pod *corev1.Pod, patch []byte) *corev1.Pod {
	var body struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(patch, &body); err != nil {
		w.t.Fatal(err)
	}
	pod.Annotations = body.Metadata.Annotations
	return pod
}

// free returns how many CPUs the account would give a pod.
func (w *world) free() int {
	snap, ok := w.Table.Known("n").Account().View().Snapshot()
	if !ok {
		w.t.Fatal("no state")
	}
	return snap.SharedCPUs.Len() - 1
}

func TestADeposedSchedulerWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.allocate(w.bind("a", "2", "1-2"), "4")
	w.deposed = true
	w.turn()
	w.wantCPUs("a", "1-2", 0)
	if free := w.free(); free != 5 {
		t.Errorf("%d CPUs are free, want 5", free)
	}
	if pods := w.Resizing(); len(pods) != 1 || pods[0].Name != "a" {
		t.Errorf("resizing: %v", pods)
	}
}

// TestNamespacesTakeTurns: a namespace with many resizes does not keep others waiting.
func TestNamespacesTakeTurns(t *testing.T) {
	w := newWorld(t)
	for i := range 40 {
		w.due[types.UID(fmt.Sprint("x", i))] = types.NamespacedName{Namespace: "many", Name: fmt.Sprintf("x%02d", i)}
	}
	w.due["y"] = types.NamespacedName{Namespace: "one", Name: "y"}
	if list := w.inTurn(); list[1].Name != "y" {
		t.Errorf("%v comes second, want the other namespace's", list[1])
	}
	for i := range 40 {
		w.begin(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "many", UID: types.UID(fmt.Sprint("x", i))}})
	}
	if len(w.writing) != maxOfNamespace || !w.begin(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "one", UID: "y"}}) {
		t.Errorf("%d writes of one namespace, and the other one's waits", len(w.writing))
	}
	w.Gone("y")
	if len(w.due) != 40 {
		t.Errorf("%d pods are due", len(w.due))
	}
}
