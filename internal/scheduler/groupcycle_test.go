package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/placement"
)

// groupHandle is the part of the framework that a group cycle needs: a snapshot, a PodGroup and the
// pods that wait in Permit.
type groupHandle struct {
	fwk.Handle
	factory informers.SharedInformerFactory
	// members is the number of pods in the group.
	members int
	infos   []fwk.NodeInfo
	waiting []*waitingMate
}

func (h *groupHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h *groupHandle) ProfileName() string                                    { return "p" }
func (h *groupHandle) SnapshotSharedLister() fwk.SharedLister                 { return snapshotOf{h: h} }
func (h *groupHandle) PodGroupManager() fwk.PodGroupManager                   { return groupOf{h: h} }
func (h *groupHandle) NominatedPodsForNode(string) []fwk.PodInfo              { return nil }
func (h *groupHandle) IterateOverWaitingPods(do func(fwk.WaitingPod)) {
	for _, w := range h.waiting {
		do(w)
	}
}

type snapshotOf struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	h *groupHandle
}

func (s snapshotOf) NodeInfos() fwk.NodeInfoLister { return s }
func (s snapshotOf) List() ([]fwk.NodeInfo, error) { return s.h.infos, nil }

type groupOf struct {
	fwk.PodGroupManager
	fwk.PodGroupState
	h *groupHandle
}

func (g groupOf) PodGroupStates() fwk.PodGroupStateLister    { return g }
func (g groupOf) Get(_, _ string) (fwk.PodGroupState, error) { return g, nil }
func (g groupOf) AllPodsCount() int                          { return g.h.members }

// waitingMate is a pod that waits in Permit.
type waitingMate struct {
	fwk.WaitingPod
	pod      *corev1.Pod
	rejected string
}

func (w *waitingMate) GetPod() *corev1.Pod       { return w.pod }
func (w *waitingMate) Reject(_, msg string) bool { w.rejected = msg; return true }

// podsOn is a node with pods in the snapshot.
type podsOn struct {
	infoOf
	pods []fwk.PodInfo
}

func (n podsOn) GetPods() []fwk.PodInfo { return n.pods }

func nodeWith(name string, pods ...*corev1.Pod) podsOn {
	n := podsOn{infoOf: nodeObject(name)}
	for _, p := range pods {
		n.pods = append(n.pods, podInfo{pod: p})
	}
	return n
}

// inGroup gives the fixture nodes n and m, and a group that needs all its members.
func (f *fixture) inGroup(members int) (*groupHandle, []*corev1.Pod) {
	f.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{})
	if err != nil {
		f.Fatal(err)
	}
	h := &groupHandle{factory: informers.NewSharedInformerFactory(client, 0), members: members}
	f.core.group = func(string, string) (OwnGroup, error) { return OwnGroup{Least: members}, nil }
	f.handle = h
	var pods []*corev1.Pod
	for i := range members {
		p := pinned(fmt.Sprint("mate", i), 7)
		p.CreationTimestamp = metav1.Unix(600+int64(i), 0)
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")}
		pods = append(pods, p)
	}
	return h, pods
}

// groupState returns the state of a member's cycle within the group's cycle.
func groupState(shared fwk.PodGroupCycleState, evicting bool) *cycleData {
	s := newCycleData()
	s.group, s.evicting = shared, evicting
	return s
}

// tried is a member that is reserved on a node.
type tried struct {
	state *cycleData
	pod   *corev1.Pod
	node  string
}

// tryGroup plays the trial of a group cycle: every member is reserved on the first node that admits
// it. If the state is new, the cycle is new.
func (f *fixture) tryGroup(t *testing.T, shared fwk.PodGroupCycleState, pods []*corev1.Pod, evicting bool, infos ...fwk.NodeInfo) (placed []tried) {
	t.Helper()
	if _, err := shared.Read(groupKey); err != nil {
		Parts{f.core}.CycleBegins()
	}
	for _, pod := range pods {
		state := groupState(shared, evicting)
		if _, s := f.PreFilter(t.Context(), state, pod, nil); !s.IsSuccess() {
			t.Logf("%s: PreFilter says %v", pod.Name, s)
			continue
		}
		for _, info := range infos {
			name := info.Node().Name
			if s := f.Filter(t.Context(), state, pod, info); !s.IsSuccess() {
				continue
			}
			f.Score(t.Context(), state, pod, info)
			if s := f.Plugin.Reserve(t.Context(), state, pod, name); !s.IsSuccess() {
				f.Unreserve(t.Context(), state, pod, name)
				t.Errorf("%s: Filter takes what Reserve refuses: %v", pod.Name, s)
				continue
			}
			placed = append(placed, tried{state, pod, name})
			break
		}
	}
	return placed
}

// takeBack ends a trial: it unreserves the members in reverse order.
func (f *fixture) takeBack(t *testing.T, placed []tried) {
	for i := len(placed) - 1; i >= 0; i-- {
		f.Unreserve(t.Context(), placed[i].state, placed[i].pod, placed[i].node)
	}
}

// TestGroupTrialsAreSilent tries a group that fits, and then one member too many. A trial changes
// no account, wakes no pod and counts in no metric. The commit places each pod where the trial did.
func TestGroupTrialsAreSilent(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"n", "m"} {
		f.feed.ReportSeen(f.reportOf(name))
	}
	_, pods := f.inGroup(5)
	sleeper := pinned("sleeper", 8)
	f.wait(sleeper)
	f.waiters.Tried(uidOf(sleeper))
	n, m := nodeWith("n"), nodeWith("m")
	shared := framework.NewCycleState()
	counted := func() float64 {
		return count(t, verdicts.WithLabelValues("Reserve", ledger.Admitted.String(), "Admitted"))
	}
	before := counted()
	changes := f.table.Named("n").Account().View().Stamp()

	placed := f.tryGroup(t, shared, pods, false, n, m)
	if len(placed) != 4 {
		t.Fatalf("%d of 5 members of 7 CPUs have a place on 4 NUMA nodes", len(placed))
	}
	f.takeBack(t, placed)
	if again := f.tryGroup(t, shared, pods, false, n, m); len(again) != 4 {
		t.Errorf("%d members have a place the second time, want 4", len(again))
	} else {
		f.takeBack(t, again)
	}
	if c := f.table.Named("n").Account().View().Census(); c != (ledger.Census{}) || f.table.Named("n").Account().View().Stamp() != changes {
		t.Errorf("the account has seen the trial: %+v", c)
	}
	if len(f.woken) > 0 || f.waiters.Len() != 1 || counted() != before {
		t.Errorf("woken %v, %d wait for nodes, %v verdicts counted: want silence", f.woken, f.waiters.Len(), counted()-before)
	}

	for _, p := range placed {
		p.state.group = nil // what the framework does before it commits
		if s := f.Plugin.Reserve(t.Context(), p.state, p.pod, p.node); !s.IsSuccess() {
			t.Errorf("%s: the commit refuses what was tried: %v", p.pod.Name, s)
		}
	}
	if c := f.table.Named("n").Account().View().Census(); c.Reserved != 2 {
		t.Errorf("%+v: want two members", c)
	}
}

// TestGroupSeesWhomTheCycleTook: pods are missing in the snapshot without a call of RemovePod.
func TestGroupSeesWhomTheCycleTook(t *testing.T) {
	f := newFixture(t)
	one, two := f.fill()
	h, pods := f.inGroup(2)
	h.infos = []fwk.NodeInfo{nodeWith("n", one, two)}
	shared := framework.NewCycleState()
	for _, tc := range []struct {
		name     string
		evicting bool
		left     []*corev1.Pod
		want     int
	}{
		{"nobody is taken", false, []*corev1.Pod{one, two}, 0},
		{"both are taken", true, nil, 2},
		{"one is taken", true, []*corev1.Pod{two}, 1},
		{"both are spared", true, []*corev1.Pod{one, two}, 0},
	} {
		placed := f.tryGroup(t, shared, pods, tc.evicting, nodeWith("n", tc.left...))
		f.takeBack(t, placed)
		if len(placed) != tc.want {
			t.Errorf("%s: %d members have a place, want %d", tc.name, len(placed), tc.want)
		}
	}
}

// TestNobodyIsEvictedForAGroupWhereSomebodyIsInFlight: two pods are in flight to a node. Which of
// them is in the group's way depends on the order in which they arrive. The cycle would evict both
// before the report shows this. If only one pod is in flight, the cycle does not wait for the
// report.
func TestNobodyIsEvictedForAGroupWhereSomebodyIsInFlight(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	h, pods := f.inGroup(1)
	pods[0].Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("8")
	large, small := pinned("large", 5), pinned("small", 3)
	fits := func(left ...*corev1.Pod) bool {
		placed := f.tryGroup(t, framework.NewCycleState(), pods, true, nodeWith("n", left...))
		f.takeBack(t, placed)
		return len(placed) > 0
	}
	n, c := f.table.Named("n").Account(), f.table.Candidate(large, requestOf(t, large))
	n.Reserve(&c, new(placement.Decision))
	if _, err := n.Post(uidOf(large), new(placement.Decision)); err != nil {
		t.Fatal(err)
	}
	f.feed.PodSeen(on(large, "n"), false)
	h.infos = []fwk.NodeInfo{nodeWith("n", large)}
	if !fits() {
		t.Error("the group does not fit without the one pod in flight")
	}
	f.feed.PodSeen(on(small, "n"), false) // another scheduler has bound it
	h.infos = []fwk.NodeInfo{nodeWith("n", large, small)}
	if fits() || fits(large) || fits(small) {
		t.Errorf("before the report: fits without both %t, without the small one %t, without the large one %t", fits(), fits(large), fits(small))
	}
	f.admit(large)
	f.admit(small)
	f.feed.ReportSeen(f.topology())
	if !fits() || !fits(large) || fits(small) {
		t.Errorf("fits without both %t, without the small one %t, without the large one %t: want true, true, false", fits(), fits(large), fits(small))
	}
}

// TestNobodyIsEvictedForAGroupBeforeTheReport: the group waits for a node's report as long as a
// single pod would. No pod is ever evicted for a part of the group.
func TestNobodyIsEvictedForAGroupBeforeTheReport(t *testing.T) {
	f := newFixture(t)
	one, two := f.fill()
	h, pods := f.inGroup(2)
	h.infos = []fwk.NodeInfo{nodeWith("n", one, two)}
	gone := one.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{}
	f.feed.PodSeen(gone, false)
	evicts := func() bool {
		shared := framework.NewCycleState()
		Parts{f.core}.CycleBegins()
		state := groupState(shared, false)
		f.PreFilter(t.Context(), state, pods[0], nil)
		status := f.Filter(t.Context(), state, pods[0], h.infos[0])
		status.SetPlugin(Name)
		if _, s := f.PostFilter(t.Context(), state, pods[0], statuses{"n": status}); s.Code() != fwk.UnschedulableAndUnresolvable {
			t.Errorf("PostFilter says %v: a part of the group may evict", s)
		}
		_, s := f.PreFilter(t.Context(), groupState(shared, true), pods[0], nil)
		return s.IsSuccess()
	}
	if evicts() {
		t.Error("somebody would be evicted although a report will tell of room")
	}
	f.clock.Step(wake.ReportLimit + time.Second)
	f.feed.HeartbeatSeen(vouched(""))
	if !evicts() {
		t.Error("nobody may ever be evicted")
	}
	if evicts() {
		t.Error("and again at once: victims have left the API long before a report says so")
	}
	f.state.Release(uidOf(one))
	f.state.Release(uidOf(two))
	for _, p := range []*corev1.Pod{pinned("three", 8), pinned("four", 7)} {
		f.admit(p)
		f.feed.PodSeen(on(p, "n"), false)
	}
	f.feed.PodGone(gone)
	f.feed.PodGone(two)
	f.feed.ReportSeen(f.topology())
	if !evicts() {
		t.Error("no node waits, and nobody may be evicted")
	}
}

// TestMatesDoNotHangInPermit: the commit cannot place the second member. The first one is
// unreserved, and the third does not begin to wait.
func TestMatesDoNotHangInPermit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spare int // members that the group does not need
	}{{"all are needed", 0}, {"one is not", 1}} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			for _, name := range []string{"n", "m"} {
				f.feed.ReportSeen(f.reportOf(name))
			}
			h, pods := f.inGroup(3)
			h.members += tc.spare
			placed := f.tryGroup(t, framework.NewCycleState(), pods, false, nodeWith("n"), nodeWith("m"))
			f.takeBack(t, placed)
			if len(placed) != 3 {
				t.Fatalf("%d of 3 members have a place", len(placed))
			}
			stranger := pinned("stranger", 7)
			commit := func(at tried) bool {
				at.state.group = nil
				s := f.Plugin.Reserve(t.Context(), at.state, at.pod, at.node)
				if !s.IsSuccess() {
					f.Unreserve(t.Context(), at.state, at.pod, at.node)
				}
				return s.IsSuccess()
			}
			if !commit(placed[0]) {
				t.Fatal("the first member does not get its place")
			}
			first := &waitingMate{pod: pods[0]}
			other := &waitingMate{pod: stranger}
			h.waiting = []*waitingMate{first, other}
			f.feed.ReportGone(placed[1].node)
			if commit(placed[1]) {
				t.Fatal("a node without a report takes the second")
			}
			f.feed.ReportSeen(f.reportOf(placed[1].node))
			third := commit(placed[2])
			if torn := tc.spare == 0; (first.rejected != "") != torn || third == torn {
				t.Errorf("the first was told %q, the third has a place: %t", first.rejected, third)
			}
			if other.rejected != "" {
				t.Error("a pod of no group is rejected")
			}
		})
	}
}
