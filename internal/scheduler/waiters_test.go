package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// calls hands on the names of the pods that are activated together.
type calls chan []string

func (c calls) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	c <- names
}

// crowd is a node on which one pod leaves, and count pods alike that want its place.
func crowd(t *testing.T, count int) (*fixture, calls, map[string]*corev1.Pod) {
	f := newFixture(t)
	_, two := f.fill()
	woken := make(calls, 100)
	f.waiters.activator = woken
	pods := map[string]*corev1.Pod{}
	for i := range count {
		p := pinned(fmt.Sprintf("p%03d", i), 4)
		pods[p.Name] = p
		f.want("a full node", p, ledger.Refused)
		f.fail(p)
	}
	f.feed.podGone(two)
	f.state.Release(string(two.UID))
	f.feed.topologySeen(f.topology())
	return f, woken, pods
}

// fail is an attempt to place a pod that the node is to blame for.
func (f *fixture) fail(p *corev1.Pod) {
	f.wait(p)
	f.waiters.blame(p.UID, nil, []*node{f.nodes.get("n")})
}

func TestAReportWakesAsManyAsThereIsRoomFor(t *testing.T) {
	f, woken, pods := crowd(t, 500)
	first := <-woken // 8 CPUs are free
	if len(first) != 2 {
		t.Fatalf("%d pods woken, want 2", len(first))
	}
	p := pods[first[0]]
	if a := f.nodes.get("n").Reserve(f.wait(p), new(placement.Decision)); !a.OK() {
		t.Fatalf("%s: %v", p.Name, a)
	}
	f.waiters.done(p.UID)
	// The others were created in the same second: until the first is reported nobody knows in which order they would come.
	f.clock.Step(callAgainAfter)
	f.waiters.wakeOne(pods["p400"]) // comes after what the clock set off, should that be anything
	if next := <-woken; fmt.Sprint(next) != "[p400]" {
		t.Errorf("%v woken although the room is taken", next)
	}
}

func TestNoWakeUpIsLost(t *testing.T) {
	const count = 31
	f, woken, pods := crowd(t, count)
	seen := map[string]int{}
	for len(seen) < count {
		names := <-woken
		for _, name := range names {
			seen[name]++
			f.fail(pods[name]) // something else keeps it from the node
		}
		if len(names) > 2 {
			t.Fatalf("%d pods woken at once, want 2", len(names))
		}
		for !f.clock.HasWaiters() && len(seen) < count {
			t.Fatalf("%d of %d pods woken, and nothing is to come", len(seen), count)
		}
		f.clock.Step(callAgainAfter)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s was woken %d times for one change", name, n)
		}
	}
	if f.clock.HasWaiters() {
		t.Error("it goes on although all have been woken")
	}
}

func TestUrgentPodsAreWokenFirst(t *testing.T) {
	f, woken, pods := crowd(t, 20)
	<-woken
	urgent := pods["p019"].DeepCopy()
	urgent.Name, urgent.UID, urgent.Spec.Priority = "urgent", "uid-urgent", new(int32(7))
	f.fail(urgent)
	f.clock.Step(callAgainAfter)
	if next := <-woken; len(next) != 2 || next[0] != "urgent" && next[1] != "urgent" {
		t.Errorf("%v woken, want the urgent one among them", next)
	}
}

// TestAPodThatBindRefusesWaits: it has a back-off, and a report need not wait for it.
func TestAPodThatBindRefusesWaits(t *testing.T) {
	f := newFixture(t)
	f.feed.topologySeen(f.topology())
	woken := make(calls, 10)
	f.waiters.activator = woken
	p := pinned("x", 4)
	state := newCycleData()
	c := f.wait(p)
	state.Write(cycleKey, &cycle{Candidate: *c})
	if s := f.Plugin.Reserve(t.Context(), state, p, "n"); !s.IsSuccess() {
		t.Fatal(s)
	}
	if f.waiters.len() != 0 {
		t.Fatal("it waits although it has a node")
	}
	cycleOf(state).refuse(nil)
	f.Unreserve(t.Context(), state, p, "n")
	if len(woken) > 0 {
		t.Fatalf("%v woken at once: it is its own place that is free", <-woken)
	}
	f.clock.Step(callAgainAfter)
	if names := <-woken; fmt.Sprint(names) != "[x]" {
		t.Errorf("%v woken", names)
	}
	if c := f.nodes.get("n").View().Census(); f.waiters.len() != 1 || c.Reserved != 0 {
		t.Errorf("%d pods wait, %+v", f.waiters.len(), c)
	}
}

// TestAPodThatReserveRefusesIsTriedAgain: Filter found nodes that take it, and no change of those is to come.
func TestAPodThatReserveRefusesIsTriedAgain(t *testing.T) {
	f := newFixture(t)
	f.feed.topologySeen(f.topology())
	woken := make(calls, 10)
	f.waiters.activator = woken
	n := f.nodes.get("n")
	for i, full := 0, false; !full; i++ { // others are faster
		other := pinned(fmt.Sprintf("fast%d", i), 4)
		a := n.Reserve(f.wait(other), new(placement.Decision))
		f.waiters.done(other.UID)
		full = !a.OK()
	}
	p := pinned("x", 4)
	state := newCycleData()
	state.Write(cycleKey, &cycle{Candidate: *f.wait(p)})
	if s := f.Plugin.Reserve(t.Context(), state, p, "n"); s.IsSuccess() {
		t.Fatal("a full node takes it")
	}
	f.Unreserve(t.Context(), state, p, "n")
	if len(woken) > 0 {
		t.Fatalf("%v woken at once, and at once again", <-woken)
	}
	f.clock.Step(callAgainAfter)
	if names := <-woken; fmt.Sprint(names) != "[x]" {
		t.Errorf("%v woken", names)
	}
	if f.waiters.done(p.UID); f.clock.HasWaiters() {
		t.Error("it goes on for ever")
	}
}

func TestNobodyIsKeptFromPreemptingForEver(t *testing.T) {
	f := newFixture(t)
	n, m := f.nodes.get("n"), f.nodes.get("m")
	p := pinned("x", 4)
	f.wait(p)
	begun := f.clock.Now()
	for range 3 { // another node each time
		if since := f.waiters.blame(p.UID, []*node{n}, []*node{m}); !since.Equal(begun) {
			t.Fatalf("waits since %v, want %v", since, begun)
		}
		n, m = m, n
		f.clock.Step(reportLimit / 3)
		f.wait(p)
	}
	if since := f.waiters.blame(p.UID, []*node{n}, nil); f.clock.Now().Sub(since) < reportLimit {
		t.Errorf("%v of waiting forgotten", f.clock.Now().Sub(begun))
	}
	f.waiters.blame(p.UID, nil, []*node{n})
	if since := f.waiters.blame(p.UID, []*node{n}, nil); !since.Equal(f.clock.Now()) {
		t.Errorf("waits since %v although nothing did in between", since)
	}
}

// TestAPodThatWaitedIsWokenToPreempt: the node's answers before the change are forgotten, what the pod was told is not.
func TestAPodThatWaitedIsWokenToPreempt(t *testing.T) {
	f := newFixture(t)
	f.fill()
	woken := make(calls, 10)
	f.waiters.activator = woken
	p := pinned("x", 4)
	f.wait(p)
	f.waiters.blame(p.UID, []*node{f.nodes.get("n")}, nil)
	f.feed.topologySeen(f.topology())
	f.waiters.wakeOne(p)
	if names := <-woken; fmt.Sprint(names) != "[x]" {
		t.Errorf("%v woken", names)
	}
	if len(woken) != 1 {
		t.Error("it was not woken when the node it waited for refused it")
	}
}

// TestAWakeUpThatComesLate: between a change and the word of it others may ask the node, and take some of the room.
func TestAWakeUpThatComesLate(t *testing.T) {
	f := newFixture(t)
	_, two := f.fill()
	n, pod, fast := f.nodes.get("n"), pinned("x", 4), pinned("fast", 4)
	pod.CreationTimestamp.Time = pod.CreationTimestamp.AddDate(0, 0, 1) // comes after the other in every order
	f.want("a full node", pod, ledger.Refused)
	f.waiters.blame(pod.UID, nil, []*node{n})
	f.feed.podGone(two)
	f.state.Release(uidOf(two))
	if _, wrong := n.accept(f.nodes.kinds.Read(f.topology(), nil)); wrong != nil {
		t.Fatal(wrong)
	}
	c := f.candidate(fast, requestOf(t, fast))
	n.Ask(ledger.Question{Candidate: &c})
	if a := n.Reserve(&c, new(placement.Decision)); !a.OK() {
		t.Fatal(a)
	}
	woken := f.wakes()
	f.waiters.wake(n)
	if len(woken) != 1 {
		t.Error("nobody was woken although n has room")
	}
}
