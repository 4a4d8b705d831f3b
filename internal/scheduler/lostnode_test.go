package scheduler

import (
	"testing"
	"time"
)

// left counts the nodes that are known.
func (f *fixture) left() (count int) {
	for range f.nodes.all {
		count++
	}
	return count
}

// sweepTwice looks for nodes that are no more, as the sweep does, when every Node has been deleted.
func (f *fixture) sweepTwice() {
	none := func(string) bool { return false }
	var found map[*node]bool
	for range 2 {
		f.nodes.expire(f.clock.Now())
		found = f.nodes.sweep(found, none)
	}
}

// TestALostNodeIsForgotten: its Node is deleted, then its pods as there is no kubelet to end them,
// and then its NodeTopology.
func TestALostNodeIsForgotten(t *testing.T) {
	f := newFixture(t)
	one, two := f.fill()
	n := f.nodes.get("n")
	f.feed.podGone(one)
	f.feed.topologyGone("n")
	f.feed.podGone(two)
	f.sweepTwice()
	if f.left() != 0 {
		t.Fatalf("%+v is left", n.View().Census())
	}
	if fresh := f.nodes.get("fresh"); fresh.number != n.number {
		t.Errorf("number %d, want that of the node before, %d", fresh.number, n.number)
	}
}

// goneUnreported has a pod be bound to node n and leave the API before a report lists it.
func (f *fixture) goneUnreported() {
	f.feed.topologySeen(f.topology())
	p := on(pinned("x", 8), "n")
	f.feed.podSeen(p, false)
	f.feed.podGone(p)
}

// TestALostNodeForgetsWhatNeverLanded: a pod that no report has listed, of a node that may come
// back.
func TestALostNodeForgetsWhatNeverLanded(t *testing.T) {
	f := newFixture(t)
	f.goneUnreported()
	f.feed.topologyGone("n")
	f.clock.Step(sweepEvery - time.Second)
	f.sweepTwice()
	if c := f.nodes.get("n").View().Census(); f.left() != 1 || c.Afloat != 1 {
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
	if c := f.nodes.get("n").View().Census(); c.Afloat != 1 {
		t.Errorf("%+v: want the pod that is gone", c)
	}
}
