package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/outcome"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// statuses are the results of Filter by node.
type statuses map[string]*fwk.Status

func (s statuses) Get(name string) *fwk.Status { return s[name] }

func (s statuses) NodesForStatusCode(_ fwk.NodeInfoLister, code fwk.Code) (out []fwk.NodeInfo, _ error) {
	for name, status := range s {
		if status.Code() == code {
			out = append(out, nodeObject(name))
		}
	}
	return out, nil
}

type sharedLister struct{ fwk.SharedLister }

func (sharedLister) NodeInfos() fwk.NodeInfoLister { return nil }

// podInfo is the part of a PodInfo that the plugin needs.
type podInfo struct {
	fwk.PodInfo
	pod *corev1.Pod
}

func (i podInfo) GetPod() *corev1.Pod { return i.pod }

// try returns the state of an attempt to place a pod, for Filter and PostFilter.
func (f *fixture) try(pod *corev1.Pod) *cycleData {
	state := newCycleData()
	state.Write(cycleKey, f.attempt(pod, requestOf(f.TB, pod)))
	return state
}

// TestANominationThatEndsWakes the pods that were refused in favor of the nominated pod. The node
// itself does not change.
func TestANominationThatEndsWakes(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	nominated := pinned("nominated", 8)
	nominated.Status.NominatedNodeName = "n"
	for what, c := range map[string]struct {
		left *corev1.Pod
		pod  *corev1.Pod
		want fwk.QueueingHint
	}{
		"it would fit":         {nominated, pinned("x", 4), fwk.Queue},
		"it never fits":        {nominated, pinned("x", 9), fwk.QueueSkip},
		"nobody was nominated": {pinned("other", 8), pinned("x", 4), fwk.QueueSkip},
	} {
		if got, err := f.afterPodDelete(klog.Background(), c.pod, c.left, nil); err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", what, got, err, c.want)
		}
	}
	f.fill()
	if got, _ := f.afterPodDelete(klog.Background(), pinned("x", 4), nominated, nil); got != fwk.Queue {
		t.Error("it is not told although it could evict somebody now")
	}
}

// TestADeletionWakesWhoMayEvict: the free resources may still not suffice, but the pod need not
// evict as many others as before.
func TestADeletionWakesWhoMayEvict(t *testing.T) {
	f := newFixture(t)
	f.fill()
	gone := on(pinned("gone", 2), "n")
	urgent, never, equal, huge := pinned("urgent", 8), pinned("never", 8), pinned("equal", 8), pinned("huge", 9)
	for _, pod := range []*corev1.Pod{urgent, never, huge} {
		pod.Spec.Priority = new(int32(7))
	}
	never.Spec.PreemptionPolicy = new(corev1.PreemptNever)
	for pod, want := range map[*corev1.Pod]fwk.QueueingHint{urgent: fwk.Queue, never: fwk.QueueSkip, equal: fwk.QueueSkip, huge: fwk.QueueSkip} {
		if got, err := f.afterPodDelete(klog.Background(), pod, gone, nil); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", pod.Name, got, err, want)
		}
	}
	low := on(pinned("low", 1), "n")
	low.Spec.Priority = new(int32(-1))
	f.feed.PodSeen(low, false)
	if got, _ := f.afterPodDelete(klog.Background(), equal, gone, nil); got != fwk.Queue {
		t.Error("somebody with a lower priority is there")
	}
}

// TestATakeoverTakesNoNomination: PostFilter ends the attempt before preemption, which would find
// no node and remove the nomination.
func TestATakeoverTakesNoNomination(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	state := f.try(pinned("x", 4))
	f.ready.Store(false)
	result, s := f.PostFilter(t.Context(), state, pinned("x", 4), statuses{})
	if result != nil || s.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("%v, %v, want that the attempt ends here", result, s)
	}
}

// TestAVictimThatCannotBeReadComesBack in a dry run like other victims. Otherwise its place would
// seem free, and other pods would be evicted for nothing.
func TestAVictimThatCannotBeReadComesBack(t *testing.T) {
	f := newFixture(t)
	odd, plain := on(pinned("odd", 4), "n"), on(pinned("plain", 4), "n")
	filler := on(pinned("filler", 7), "n")
	for _, pod := range []*corev1.Pod{filler, odd, plain} {
		f.admit(pod)
	}
	odd.Spec.Containers[0].Resources.Limits["example.com/odd"] = resource.MustParse("1E")
	f.feed.ReportSeen(f.topology())
	for _, pod := range []*corev1.Pod{filler, odd, plain} {
		f.feed.PodSeen(pod, false)
	}
	pod, info := pinned("x", 8), nodeObject("n")
	state := f.try(pod)
	if s := f.Filter(t.Context(), state, pod, info); s.Code() != fwk.Unschedulable {
		t.Fatalf("%v on a full node", s)
	}
	for _, victim := range []*corev1.Pod{odd, plain} {
		f.RemovePod(t.Context(), state, pod, podInfo{pod: victim}, info)
	}
	if s := f.Filter(t.Context(), state, pod, info); !s.IsSuccess() {
		t.Fatalf("%v without both", s)
	}
	for _, victim := range []*corev1.Pod{odd, plain} {
		f.AddPod(t.Context(), state, pod, podInfo{pod: victim}, info)
		if s := f.Filter(t.Context(), state, pod, info); s.IsSuccess() {
			t.Errorf("fits with %s there", victim.Name)
		}
		f.RemovePod(t.Context(), state, pod, podInfo{pod: victim}, info)
	}
}

// TestANodeThatIsLeftToOthersIsNotSaidToRefuse: the message must not say that the node refuses a
// pod that it would admit.
func TestANodeThatIsLeftToOthersIsNotSaidToRefuse(t *testing.T) {
	pod := pinned("x", 4)
	f, h := attached(t, pod)
	h.nominated["n"] = []fwk.PodInfo{podInfo{pod: pinned("first", 8)}}
	state := f.try(pod)
	_, s := f.PostFilter(t.Context(), state, pod, statuses{"n": fwk.NewStatus(fwk.Unschedulable, "no").WithPlugin(Name)})
	if s.Code() != fwk.Unschedulable || strings.Contains(s.Message(), "admitted") || !strings.Contains(s.Message(), ledger.AfterOthers.Text()) {
		t.Errorf("%v %q, want that others come first", s.Code(), s.Message())
	}
}

// TestPatienceEvictsNobody: a pod that fits, and waits until its CPUs are certain, evicts no pods,
// however long its patience is.
func TestPatienceEvictsNobody(t *testing.T) {
	pod := pinned("x", 4)
	for text, want := range map[string]fwk.Code{waitCertainty: fwk.UnschedulableAndUnresolvable, "for a report": fwk.Unschedulable} {
		f, _ := attached(t, pod)
		f.args.Patience.Duration = 2 * wake.ReportLimit
		said := statuses{"n": fwk.NewStatus(fwk.Pending, text).WithPlugin(Name)}
		woken := f.wakes()
		if _, s := f.PostFilter(t.Context(), f.try(pod), pod, said); s.Code() != fwk.UnschedulableAndUnresolvable {
			t.Fatalf("%s: %v at first", text, s)
		}
		f.clock.Step(wake.ReportLimit)
		if names := <-woken; fmt.Sprint(names) != "[x]" || len(woken) > 0 {
			t.Errorf("%s: %v woken after %v, and %d times more", text, names, wake.ReportLimit, len(woken))
		}
		if _, s := f.PostFilter(t.Context(), f.try(pod), pod, said); s.Code() != want {
			t.Errorf("%s: %v after %v, want %v", text, s, wake.ReportLimit, want)
		}
	}
}

// TestTheNominatedNodeIsNotEstimated: the pod would lose its nomination if Reserve refused it.
func TestTheNominatedNodeIsNotEstimated(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	for i := 0; !f.table.Large(); i++ {
		f.table.Named(fmt.Sprint("other", i))
	}
	f.postOn(f.table.Named("n"), pinned("b", 4))
	for i, test := range []struct {
		nominated string
		want      fwk.Code
	}{{"", fwk.Success}, {"other1", fwk.Success}, {"n", fwk.Pending}} { // the last answer is cached
		pod := pinned("a", int64(4-i)) // each pod has a new shape
		pod.Status.NominatedNodeName = test.nominated
		if s := f.Filter(t.Context(), f.try(pod), pod, nodeObject("n")); s.Code() != test.want {
			t.Errorf("nominated to %q: %v, want %v", test.nominated, s, test.want)
		}
	}
}

// TestAPodThatGoesElsewhereWakes the pods that were refused on its nominated node in favor of it.
// No event reports this.
func TestAPodThatGoesElsewhereWakes(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	f.feed.ReportSeen(f.reportOf("m"))
	behind, pod := pinned("behind", 4), pinned("x", 8)
	f.wait(behind)
	f.blame(behind, nil, []*nodes.Node{f.table.Named("n")})
	pod.Status.NominatedNodeName = "n"
	woken := f.wakes()
	if s := f.Reserve(t.Context(), f.try(pod), pod, "m"); !s.IsSuccess() {
		t.Fatal(s)
	}
	if len(woken) != 1 {
		t.Error("it sleeps on")
	}
}

// TestANewNodeThatWaitsWakes pods when it no longer waits, because no pod could be placed on it
// before.
func TestANewNodeThatWaitsWakes(t *testing.T) {
	f, other := newFixture(t), newFixture(t)
	f.fill()
	pod := pinned("x", 4)
	strangers := []*corev1.Pod{on(pinned("a", 7), "m"), on(pinned("b", 8), "m")}
	for _, s := range strangers {
		f.feed.PodSeen(s, false)
	}
	f.wait(pod)
	f.blame(pod, nil, []*nodes.Node{f.table.Named("n")})
	f.feed.ReportSeen(other.reportOf("m"))
	if a := f.table.Named("m").Account().View().Ask(ledger.Question{Candidate: f.wait(pinned("y", 4))}); a.Outcome != ledger.Waiting {
		t.Fatalf("%v, want that it waits", a)
	}
	if got, _ := f.afterNodeAdd(klog.Background(), pod, nil, nodeObject("m").object); got != fwk.Queue {
		t.Error("a pod that it may take is not to ask it")
	}
	for _, s := range strangers {
		f.feed.PodGone(s)
	}
	f.clock.Step(10 * time.Second)
	f.waiters.Done("uid-y")
	woken := f.wakes()
	f.feed.ReportSeen(other.reportOf("m"))
	if len(woken) != 1 {
		t.Errorf("woken %d times", len(woken))
	}
}

// TestPreemptorsDoNotWaitForEachOther: the room of a victim is for the pod that is nominated there.
// Another pod must look for its own victims at once, and not wait for the report.
func TestPreemptorsDoNotWaitForEachOther(t *testing.T) {
	f := newFixture(t)
	_, two := f.fill()
	leaving := two.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{}
	first, info := pinned("first", 8), nodeObject("n")
	for _, ends := range []bool{false, true} {
		if ends {
			f.feed.PodSeen(leaving, false)
		}
		pod := pinned("second", 8)
		state := f.try(pod)
		f.AddPod(t.Context(), state, pod, podInfo{pod: first}, info)
		if s := f.Filter(t.Context(), state, pod, info); s.Code() != fwk.Unschedulable {
			t.Errorf("the victim is known to end: %v: %v, want that it is refused", ends, s)
		}
	}
}

// TestADryRunThatWaitsWakes: the node's report shows a pod that was in flight, and only then it is
// known whether evictions help. The node itself refuses the pod before and after.
func TestADryRunThatWaitsWakes(t *testing.T) {
	f := newFixture(t)
	seven, victim, stranger := pinned("seven", 7), pinned("victim", 4), pinned("stranger", 4)
	for _, pod := range []*corev1.Pod{seven, victim} {
		f.admit(pod)
	}
	f.feed.ReportSeen(f.topology())
	for _, pod := range []*corev1.Pod{seven, victim, stranger} {
		f.feed.PodSeen(on(pod, "n"), false)
	}
	pod, info := pinned("x", 8), nodeObject("n")
	state := f.try(pod)
	if s := f.Filter(t.Context(), state, pod, info); s.Code() != fwk.Unschedulable {
		t.Fatalf("%v where the victim is, want that it is refused", s)
	}
	f.blame(pod, nil, []*nodes.Node{f.table.Named("n")})
	f.RemovePod(t.Context(), state, pod, podInfo{pod: victim}, info)
	if s := f.Filter(t.Context(), state, pod, info); s.Code() != fwk.Pending {
		t.Fatalf("%v without the victim, want that it waits for the stranger", s)
	}
	f.woken = activations{}
	f.wakeEdge.activator = f.woken
	f.admit(stranger)
	f.feed.ReportSeen(f.topology())
	if f.woken["x"] != 1 {
		t.Errorf("woken %v, want that it thinks of preemption again", f.woken)
	}
}

// TestOnlyItsOwnUpdateHelpsWhatCannotBeRead: a deletion or a new node does not wake a pod that
// cannot be read. An update that makes it readable does.
func TestOnlyItsOwnUpdateHelpsWhatCannotBeRead(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	gone := on(pinned("gone", 2), "n")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	right := pinned("x", 4)
	for what, spoil := range map[string]func(*corev1.Pod){
		"policy":     func(p *corev1.Pod) { p.Annotations = map[string]string{wire.PolicyAnnotation: "strictest"} },
		"affinity":   func(p *corev1.Pod) { p.Annotations = map[string]string{wire.ReservationAffinityAnnotation: "[["} },
		"containers": func(p *corev1.Pod) { p.Spec.Containers = make([]corev1.Container, placement.MaxContainers+1) },
	} {
		wrong := right.DeepCopy()
		spoil(wrong)
		if got, err := f.afterPodDelete(klog.Background(), wrong, gone, nil); err != nil || got != fwk.QueueSkip {
			t.Errorf("%s: a deletion: %v, %v, want it to wait", what, got, err)
		}
		if got, err := f.afterNodeAdd(klog.Background(), wrong, nil, node); err != nil || got != fwk.QueueSkip {
			t.Errorf("%s: a new node: %v, %v, want it to wait", what, got, err)
		}
		if got, err := f.afterPodUpdate(klog.Background(), wrong, wrong, right); err != nil || got != fwk.Queue {
			t.Errorf("%s: it can be read now: %v, %v, want it to be tried", what, got, err)
		}
	}
	if got, err := f.afterPodDelete(klog.Background(), right, gone, nil); err != nil || got != fwk.Queue {
		t.Errorf("%v, %v: want a pod that can be read to be tried", got, err)
	}
}

// TestTheWatchShowsNominations: a nomination that the watch has shown is no longer kept for the
// pod, even if it is removed before the pod is tried again.
func TestTheWatchShowsNominations(t *testing.T) {
	f := newFixture(t)
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	f.core.outcomes = outcome.NewWriter(outcome.Options{Client: fake.NewClientset(), Pods: corelisters.NewPodLister(pods), Clock: f.clock, Logger: klog.Background()})
	pod := pinned("x", 2)
	if err := pods.Add(pod); err != nil {
		t.Fatal(err)
	}
	f.core.outcomes.Write(pod, nil, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n"})
	shown := pod.DeepCopy()
	shown.Status.NominatedNodeName = "n"
	for i, step := range []struct {
		from, to *corev1.Pod
		unshown  bool
	}{{pod, pod, true}, {pod, shown, false}, {shown, pod, false}} {
		f.core.OnUpdate(step.from, step.to)
		if node, unshown := f.core.outcomes.Nominated(pod.UID); unshown != step.unshown {
			t.Errorf("step %d: nominated to %q, unshown %t", i, node, unshown)
		}
	}
}
