package ledger

import "sync"

// Node has the ledger's facts about one node, and answers whether the node would admit pods. It is
// safe for concurrent use.
//
//	the scheduler       Reserve, Post, Reconsider; Forget (no Binding written) or Doubt (unknown)
//	the API server      See, Glance, Gone
//	the node's agent    Accept, Withdraw; ForgetGone after each report or renewed Lease
//	waiting pods        Shift: has the answer changed?
//	other readers       View: the node's answers and their reasons
type Node struct {
	mu sync.Mutex
	// The stored answers are near the start of outlook, so that they are close to mu in memory. On
	// a large cluster, reading a stored answer is mostly waiting for memory.
	outlook  outlook
	stateIDs *numbers
}

func newNode(c *ChangeCounter, ids *numbers, f facts) *Node {
	return &Node{outlook: outlook{changes: c, facts: f}, stateIDs: ids}
}

// lock takes the lock, and returns the outlook that it guards. The caller unlocks mu.
func (n *Node) lock() *outlook {
	n.mu.Lock()
	return &n.outlook
}
