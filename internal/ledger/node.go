package ledger

import "sync"

// Node has the ledger's facts about one node, and answers whether the node would admit pods. It is
// safe for concurrent use.
//
//	the scheduler       Reserve, Post, Reconsider decide; then Forget (no Binding) or Doubt (unknown)
//	the API server      See, Glance, Gone
//	the node's agent    Accept, Withdraw; ForgetGone after each report or renewed Lease
//	waiting pods        Shift: has the answer changed?
//	all others          View: the node's answers and their reasons
type Node struct {
	mu sync.Mutex
	// horizon and answers are next to mu in memory, because on a large cluster memory accesses take
	// most of the time to read a stored answer.
	horizon
	answers answerCache
	outlook
	stateIDs *numbers
}

// newNode returns a Node with the facts f. c counts its changes.
func newNode(c *ChangeCounter, ids *numbers, f facts) *Node {
	if f.pods == nil {
		f.pods = map[string]*pod{}
	}
	n := &Node{horizon: horizon{changes: c}, outlook: outlook{facts: f}, stateIDs: ids}
	n.outlook.horizon = &n.horizon
	return n
}

// changed discards the computed states and makes the stored answers stale.
func (n *Node) changed() {
	n.noteUnshown()
	n.forget()
	n.stale()
}

// stale counts a change, and makes the stored answers stale.
func (n *Node) stale() {
	n.changes.Bump()
	n.answers.stale()
}

// noteUnshown stores unshownCPUs in the ChangeCounter. The number grows with a new report, or if a
// pod that a report lists is taken back.
func (n *Node) noteUnshown() { n.changes.unshown.Store(int32(n.unshownCPUs(nil))) }
