package ledger

import (
	"sync"

	"github.com/berth-dev/berth/placement"
)

// Ledger holds the accounts of all nodes. The zero value is empty and ready; it is safe for concurrent use.
type Ledger struct {
	nodes    sync.Map // name to *Node
	shapes   shapes
	stateIDs stateIDs
}

// Node returns the account of the named node, opening one if there is none.
func (l *Ledger) Node(name string) *Node {
	if n, ok := l.nodes.Load(name); ok {
		return n.(*Node)
	}
	n, _ := l.nodes.LoadOrStore(name, &Node{pods: map[string]*pod{}, changes: new(ChangeCounter), stateIDs: &l.stateIDs})
	return n.(*Node)
}

// Drop forgets the account of a node that is Idle.
func (l *Ledger) Drop(name string) { l.nodes.Delete(name) }

// Idle says that nothing is known of the node: it has no report, and no pods.
func (n *Node) Idle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.report == nil && len(n.pods) == 0
}

// All calls yield for every node until it returns false.
func (l *Ledger) All(yield func(name string, n *Node) bool) {
	l.nodes.Range(func(k, v any) bool { return yield(k.(string), v.(*Node)) })
}

// Shape returns what the request has in common with others that get the same verdicts.
func (l *Ledger) Shape(r *placement.Request) Shape { return l.shapes.intern(r) }
