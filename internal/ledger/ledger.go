package ledger

import "github.com/berth-dev/berth/placement"

// Ledger is shared by all Nodes. It gives equal requests the same Shape, and equal states the same
// StateID. The zero Ledger is ready to use. A Ledger is safe for concurrent use.
type Ledger struct{ shapes, stateIDs numbers }

// Open returns an empty Node whose changes are counted by c, which may be nil.
func (l *Ledger) Open(c *ChangeCounter) *Node {
	if c == nil {
		c = new(ChangeCounter)
	}
	return newNode(c, &l.stateIDs, facts{})
}

// Shape returns the shape of the request. Requests with the same shape get the same verdict in the
// same state.
func (l *Ledger) Shape(r *placement.Request) Shape {
	return Shape(l.shapes.of(nil, maxShapes, func(b []byte) []byte { return requestKey(b, r) }))
}
