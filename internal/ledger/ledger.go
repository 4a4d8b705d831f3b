package ledger

import "github.com/berth-dev/berth/placement"

// Ledger is what the accounts of all nodes share: numbers for requests and for states that are
// equal. The zero value is empty and ready; it is safe for concurrent use.
type Ledger struct{ shapes, stateIDs numbers }

// Open returns an empty account. Its changes are counted by c; nil stands for a counter that nobody
// reads.
func (l *Ledger) Open(c *ChangeCounter) *Node {
	if c == nil {
		c = new(ChangeCounter)
	}
	return newNode(c, &l.stateIDs, facts{})
}

// Shape returns what the request has in common with others that get the same verdicts.
func (l *Ledger) Shape(r *placement.Request) Shape {
	return Shape(l.shapes.of(nil, maxShapes, func(b []byte) []byte { return requestKey(b, r) }))
}
