package ledger

import "sync"

// Node is the ledger's account of one node. It is safe for concurrent use.
//
//	the scheduler       Reserve, Post, Reconsider decide; then Forget (no Binding) or Doubt (unknown)
//	the API server      See, Glance, Gone
//	the node's agent    Accept, Withdraw; ForgetGone after each report or renewed Lease
//	waiting pods        Shift: has the answer changed?
//	all others          View: the node's answers and their reasons
type Node struct {
	mu sync.Mutex
	// horizon and answers are next to mu in memory. On a large cluster, reading a stored answer
	// costs little more than its memory accesses.
	horizon
	answers answerCache
	outlook
	stateIDs *numbers
}

// newNode returns an account that begins with the facts. c counts its changes.
func newNode(c *ChangeCounter, ids *numbers, f facts) *Node {
	if f.pods == nil {
		f.pods = map[string]*pod{}
	}
	n := &Node{horizon: horizon{changes: c}, outlook: outlook{facts: f}, stateIDs: ids}
	n.outlook.horizon = &n.horizon
	return n
}

// changed discards computed states.
func (n *Node) changed() {
	n.noteUnshown()
	n.forget()
	n.stale()
}

// stale turns the stored answers into answers of the past.
func (n *Node) stale() {
	n.changes.Bump()
	n.answers.stale()
}

// noteUnshown counts the CPUs of pods that only the report lists. They appear with a report, or
// when a pod is taken back after a report has listed it.
func (n *Node) noteUnshown() { n.changes.unshown.Store(int32(n.unshownCPUs(nil))) }
