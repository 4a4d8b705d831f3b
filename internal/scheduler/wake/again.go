package wake

import "github.com/berth-dev/berth/internal/ledger"

// maxAgain bounds the pods that are woken between two RoundPauses although a node may have taken
// them before. This happens if more shapes wait than a node stores answers to (ledger.MaxAnswers).
// Without this bound, a tenant with many shapes could make each report wake pods that other plugins
// refuse.
const maxAgain = 128

// again holds the shapes that some node takes, and may have taken before. Their classes take turns.
// Every second turn starts again with the first class of each namespace, the others go around the
// ring. So a namespace with few classes is woken soon, and every class has a turn.
type again struct {
	// order has a class of each shape. later has those whose shape has had its turn since the
	// pause.
	order, later order
	byShape      map[ledger.Shape]*renewal
	// at is the class that had the last turn around the ring. fromStart tells which turn is next.
	at        place
	fromStart bool
	// spent is the number of woken pods since the last pause.
	spent int
	timed bool
}

// renewal is a wakeRound that shares a budget with others.
type renewal struct {
	shape ledger.Shape
	// node is the last node that takes the shape. several means that there were others.
	node    Node
	several bool
	// room is the nodes' room for the shape, by their answers. If it has no pods, the node must be
	// asked again.
	room room
	// blamed and woken are as in wakeRound.
	blamed Node
	woken  map[string]bool
	// more means that some node has taken the shape again since the first pods were woken. turned
	// means that the shape has had a turn since the last pause. It gets another one if nodes take
	// more.
	more, turned bool
}

// add gives a class a turn for its shape.
func (a *again) add(m *members) {
	if r := a.byShape[m.class.shape]; r.turned && r.room.pods == 0 {
		a.later.add(m)
	} else {
		a.order.add(m)
	}
}

// remove forgets a class.
func (a *again) remove(m *members) {
	a.order.remove(m)
	a.later.remove(m)
}

// next returns the class whose turn it is, or nil if there is none or the budget is spent.
func (a *again) next() *members {
	if a.spent >= maxAgain || len(a.order.sorted) == 0 {
		return nil
	}
	from := a.at
	if a.fromStart = !a.fromStart; a.fromStart {
		from = start
	}
	found, _ := a.order.after(from, 1)
	if len(found) == 0 {
		found, _ = a.order.after(start, 1)
	}
	m := found[0] // of the order itself
	if !a.fromStart {
		a.at = m.place
	}
	a.order.remove(m)
	return m
}
