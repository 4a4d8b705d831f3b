package nodes

import (
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// left counts the known nodes.
func (f *fixture) left() (count int) {
	for range f.table.All {
		count++
	}
	return count
}

// sweepTwice looks for nodes that are gone, as the sweep does, after all Nodes were deleted.
func (f *fixture) sweepTwice() {
	none := func(string) bool { return false }
	var found map[*Node]bool
	for range 2 {
		f.table.expire(f.clock.Now())
		found = f.table.sweep(found, none)
	}
}

// TestALostNodeIsForgotten: first its Node is deleted, then its pods, because no kubelet ends them,
// and then its NodeTopology.
func TestALostNodeIsForgotten(t *testing.T) {
	f := newFixture(t)
	one, two := pinned("one", 7), pinned("two", 8)
	f.admit(one)
	f.admit(two)
	f.ReportSeen(f.reportOf("n"))
	f.PodSeen(on(one, "n"), false)
	f.PodSeen(on(two, "n"), false)
	n := f.table.Named("n")
	f.PodGone(one)
	f.ReportGone("n")
	f.PodGone(two)
	f.sweepTwice()
	if f.left() != 0 {
		t.Fatalf("%+v is left", n.account.View().Census())
	}
	if fresh := f.table.Named("fresh"); fresh.hot.number != n.hot.number {
		t.Errorf("number %d, want that of the node before, %d", fresh.hot.number, n.hot.number)
	}
}

// goneUnreported binds a pod to node n and deletes it before a report lists it.
func (f *fixture) goneUnreported() {
	f.ReportSeen(f.reportOf("n"))
	p := on(pinned("x", 8), "n")
	f.PodSeen(p, false)
	f.PodGone(p)
}

// TestALostNodeForgetsWhatNeverLanded: no report has listed the pod, and its node may come back.
func TestALostNodeForgetsWhatNeverLanded(t *testing.T) {
	f := newFixture(t)
	f.goneUnreported()
	f.ReportGone("n")
	f.clock.Step(sweepEvery - time.Second)
	f.sweepTwice()
	if c := f.table.Named("n").account.View().Census(); f.left() != 1 || c.Afloat != 1 {
		t.Fatalf("forgotten too early: %+v", c)
	}
	f.clock.Step(time.Second)
	f.sweepTwice()
	if f.left() != 0 {
		t.Error("it is left")
	}
}

// TestWithAReportNothingExpires: the pod stays until the agent reports.
func TestWithAReportNothingExpires(t *testing.T) {
	f := newFixture(t)
	f.goneUnreported()
	f.clock.Step(2 * sweepEvery)
	f.sweepTwice()
	if c := f.table.Named("n").account.View().Census(); c.Afloat != 1 {
		t.Errorf("%+v: want the pod that is gone", c)
	}
}

// lostFixture is a feed that has seen a pod on node n.
type lostFixture struct {
	*fixture
	node *Node
	pod  *corev1.Pod
	// there means that node n has a Node.
	there atomic.Bool
	// asked gets a value when the feed has checked whether n is a Node, told when it has reported a
	// change.
	asked, told chan bool
}

func newLostFixture(t *testing.T, there bool) *lostFixture {
	f := &lostFixture{fixture: newFixture(t), pod: on(pinned("x", 8), "n"), asked: make(chan bool, 10), told: make(chan bool, 10)}
	f.there.Store(there)
	f.Exists = func(string) bool {
		defer func() { f.asked <- true }()
		return f.there.Load()
	}
	f.Changed = func() { f.told <- true }
	f.PodSeen(f.pod, false)
	f.node = f.table.Named("n")
	return f
}

// gone deletes the pod.
func (f *lostFixture) gone() {
	f.PodGone(f.pod)
	<-f.told
}

// keeps checks that the pod still counts.
func (f *lostFixture) keeps(when string) {
	f.t.Helper()
	if c := f.node.account.View().Census(); c.Afloat != 1 || c.Ending != 1 {
		f.t.Fatalf("%s: %+v, want the pod that is gone", when, c)
	}
}

// forgets waits for a change, and checks that the pod no longer counts.
func (f *lostFixture) forgets(when string) {
	f.t.Helper()
	select {
	case <-f.told:
	case <-time.After(time.Minute):
		f.t.Errorf("%s: nobody is told", when)
	}
	if !f.node.account.View().Idle() {
		f.t.Fatalf("%s: %+v is left", when, f.node.account.View().Census())
	}
}

// TestAPodOnANodeThatNeverWas: a pod may name any node. No agent will report it there.
func TestAPodOnANodeThatNeverWas(t *testing.T) {
	f := newLostFixture(t, false)
	f.gone()
	f.clock.Step(f.SettleAfter - 1)
	f.keeps("at once")
	f.clock.Step(1)
	f.forgets("after a while")
}

// TestAPodOnANodeThatComes: the Node exists now, and its agent may still report the pod.
func TestAPodOnANodeThatComes(t *testing.T) {
	f := newLostFixture(t, false)
	f.gone()
	f.there.Store(true)
	f.clock.Step(f.SettleAfter)
	<-f.asked
	f.keeps("with a Node")
	f.there.Store(false)
	f.NodeGone("n")
	f.clock.Step(f.SettleAfter)
	f.forgets("with the Node gone as well")
}

// TestAPodOnANodeThatIsTakenAway: the Node and its report are deleted after the pod.
func TestAPodOnANodeThatIsTakenAway(t *testing.T) {
	f := newLostFixture(t, true)
	f.ReportSeen(f.reportOf("n"))
	<-f.told
	f.gone()
	f.there.Store(false)
	f.NodeGone("n")
	f.clock.Step(f.SettleAfter)
	f.keeps("with a report, whose agent has not been heard")
	f.ReportGone("n")
	f.clock.Step(f.SettleAfter)
	f.forgets("with neither")
}

// wrongClock shows a wrong time, but its timers are right.
type wrongClock struct {
	*testingclock.FakeClock
	by atomic.Int64
}

func (c *wrongClock) Now() time.Time { return c.FakeClock.Now().Add(time.Duration(c.by.Load())) }

// TestAClockThatIsSetBack does not keep a pod.
func TestAClockThatIsSetBack(t *testing.T) {
	f := newLostFixture(t, false)
	c := &wrongClock{FakeClock: f.clock}
	f.table.clock = c
	f.gone()
	c.by.Store(-int64(time.Hour))
	f.clock.Step(f.SettleAfter)
	f.forgets("an hour back")
}
