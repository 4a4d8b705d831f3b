package ledger

import "sync/atomic"

// ChangeCounter tells without a lock whether an answer of a Node still holds. It does while the count is the same and
// the candidate follows every pod in flight. It is a hint: whoever acts on an answer asks again, as Reserve does.
type ChangeCounter struct {
	// state is the count, and in the lower half the StateID: 0 while nobody has asked for it at this count.
	state  atomic.Uint64
	newest atomic.Int64
}

// Count returns how many changes there were.
func (c *ChangeCounter) Count() uint32 { return uint32(c.state.Load() >> 32) }

// Load returns the count, and the StateID if it is known.
func (c *ChangeCounter) Load() (count uint32, id StateID) {
	v := c.state.Load()
	return uint32(v >> 32), StateID(v)
}

// Bump counts a change: answers given before do not hold any more.
func (c *ChangeCounter) Bump() {
	for {
		old := c.state.Load()
		if c.state.CompareAndSwap(old, (old>>32+1)<<32) {
			return
		}
	}
}

// StartAt sets the first count.
func (c *ChangeCounter) StartAt(count uint32) { c.state.Store(uint64(count) << 32) }

// identify notes the StateID, unless there was a change after that count.
func (c *ChangeCounter) identify(count uint32, id StateID) {
	c.state.CompareAndSwap(uint64(count)<<32, uint64(count)<<32|uint64(id))
}

// Follows says whether a pod created in that second comes after all pods in flight in every order.
func (c *ChangeCounter) Follows(created int64) bool { return created > c.newest.Load() }

// Keep has c count the changes of the node from now on.
func (n *Node) Keep(c *ChangeCounter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.newest.Store(n.newest)
	n.changes = c
}

// Sample is Admit with the beat at which the answer was given. Lasting says that the answer holds for every later
// candidate of the same shape that follows the pods in flight, until the next beat.
func (n *Node) Sample(c *Candidate) (a Answer, beat uint32, lasting bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a = n.admit(c)
	return a, n.changes.Count(), n.lasts(c)
}

// Estimate is Sample, but does not go through the orders in which a kubelet may admit the candidate and pods in flight that
// were created in the same second, or later: it answers for the order of Reserve alone. Sure says that nothing was left out;
// otherwise the answer is an admission, and Reserve has the last word.
func (n *Node) Estimate(c *Candidate) (a Answer, beat uint32, lasting, sure bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.firstOrder(c); ok {
		return a, n.changes.Count(), false, false
	}
	a = n.admit(c)
	return a, n.changes.Count(), n.lasts(c), true
}

// lasts says whether an answer to the candidate is one to all of its shape that follow the pods in flight.
func (n *Node) lasts(c *Candidate) bool { return n.questionOf(c).shape != 0 && c.Created > n.newest }

// firstOrder answers for the order of Reserve, where there are others and nobody has gone through them.
func (n *Node) firstOrder(c *Candidate) (a Answer, ok bool) {
	if n.report == nil || n.answers.find(n.questionOf(c)) != nil {
		return Answer{}, false
	}
	n.compute()
	if c.Created > n.newest || n.full.uncertain() {
		return Answer{}, false
	}
	q := question{shape: n.questionOf(c).shape}
	if known := n.estimates.find(q); known != nil {
		return *known, known.OK()
	}
	a = n.full.ask(c.Request)
	a.Certain, a.Exact = false, false
	if q.shape != 0 {
		n.estimates.put(q, a)
	}
	return a, a.OK()
}

// setNewest notes the latest second of creation among the pods in flight.
func (n *Node) setNewest(second int64) {
	n.newest = second
	n.changes.newest.Store(second)
}
