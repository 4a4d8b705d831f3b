package nodes

import (
	"testing"
	"time"
)

// left counts the nodes that are known.
func (f *fixture) left() (count int) {
	for range f.table.All {
		count++
	}
	return count
}

// sweepTwice looks for nodes that are no more, as the sweep does, when every Node has been deleted.
func (f *fixture) sweepTwice() {
	none := func(string) bool { return false }
	var found map[*Node]bool
	for range 2 {
		f.table.expire(f.clock.Now())
		found = f.table.sweep(found, none)
	}
}

// TestALostNodeIsForgotten: its Node is deleted, then its pods as there is no kubelet to end them,
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

// goneUnreported has a pod be bound to node n and leave the API before a report lists it.
func (f *fixture) goneUnreported() {
	f.ReportSeen(f.reportOf("n"))
	p := on(pinned("x", 8), "n")
	f.PodSeen(p, false)
	f.PodGone(p)
}

// TestALostNodeForgetsWhatNeverLanded: a pod that no report has listed, of a node that may come
// back.
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

// TestWithAReportNothingExpires: its agent has to be heard.
func TestWithAReportNothingExpires(t *testing.T) {
	f := newFixture(t)
	f.goneUnreported()
	f.clock.Step(2 * sweepEvery)
	f.sweepTwice()
	if c := f.table.Named("n").account.View().Census(); c.Afloat != 1 {
		t.Errorf("%+v: want the pod that is gone", c)
	}
}
