package ledger

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement"
)

func TestRoom(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	for size, want := range map[int64]int{1: 10, 2: 7, 4: 3, 7: 2, 8: 1, 9: 0} { // 7 and 8 CPUs are free
		if got := n.View().Room(cand(cpus("x", size)), 10); got != want {
			t.Errorf("room for %d pods of %d CPUs, want %d", got, size, want)
		}
	}
	check(t, n)
	if got := new(Ledger).Open(nil).View().Room(cand(cpus("x", 1)), 10); got != 0 {
		t.Errorf("room for %d pods without a report", got)
	}
}

// TestRoomMissesNobody compares Room with the same pods reserved one after another, as fit counts
// them, in random histories. If the results differ, the node has begun to wait for a report: Room
// continues to count, and a pod that is woken for that room waits too. Room never counts fewer
// pods.
func TestRoomMissesNobody(t *testing.T) {
	const limit = 8
	same, more := 0, 0
	whereAdmitted(t, func(h *history, c *Candidate, _ Answer) {
		taken, last := takenOneByOne(h.n, c, limit, 1)
		switch room := h.n.View().Room(c, limit); {
		case room == taken:
			same++
		case room > taken && last.Outcome == Waiting:
			more++
		default:
			h.fail("room for %d pods like %s: the node takes %d, and then says %+v", room, c.Request.UID, taken, last)
		}
	})
	t.Logf("%d same, %d times more", same, more)
	if same < 1000 || more > same/100 {
		t.Errorf("%d times the same, %d times more: the histories show too little, or Room counts too many", same, more)
	}
}

// TestApart compares Apart with pods of one second that are reserved one after another, in random
// histories. A node for which Apart is true takes one pod. Any other node takes a second one, or is
// not certain of the first pod's CPUs.
func TestApart(t *testing.T) {
	const limit = 4
	apart, together := 0, 0
	whereAdmitted(t, func(h *history, c *Candidate, a Answer) {
		if h.n.View().Room(c, limit) < 2 {
			return
		}
		taken, last := takenOneByOne(h.n, c, limit, 0)
		switch {
		case !h.n.View().Apart(c):
			together++
			if a.Exact && taken < 2 {
				h.fail("%s is not kept apart, and another of its second is: %+v", c.Request.UID, last)
			}
		case taken > 1:
			h.fail("%s is kept apart, and the node takes %d of its second", c.Request.UID, taken)
		default:
			apart++
		}
	})
	if t.Logf("%d apart, %d together", apart, together); apart < 100 || together < 100 {
		t.Errorf("%d apart, %d together: the histories show too little", apart, together)
	}
}

// whereAdmitted plays random histories, and calls do whenever the node admits a pod.
func whereAdmitted(t *testing.T, do func(h *history, c *Candidate, a Answer)) {
	for seed := range uint64(100) {
		h := newHistory(t, seed)
		h.trace = append(h.trace, fmt.Sprint("seed ", seed))
		for range 60 {
			h.step()
			c := &Candidate{Request: h.request(), Created: h.second}
			if a := h.n.View().Ask(Question{Candidate: c}); a.OK() {
				do(h, c, a)
			}
		}
	}
}

// takenOneByOne reserves pods like the candidate on a fork of the node until it admits no more.
// Each pod is created later seconds after the previous one.
func takenOneByOne(n *Node, c *Candidate, limit int, later int64) (taken int, last Answer) {
	fork := n.Fork()
	for ; taken < limit; taken++ {
		r, d := *c.Request, placement.Decision{}
		r.UID = fmt.Sprint(r.UID, "/", taken)
		if last = fork.Reserve(&Candidate{Request: &r, Created: c.Created + int64(taken)*later}, &d); !last.OK() {
			return taken, last
		}
	}
	return limit, last
}
