package wake

import "github.com/berth-dev/berth/internal/ledger"

// maxAgain limits, between two RoundPauses, the woken pods that a node may have admitted already
// before its change. It is not known whether the node admitted a pod before if more shapes wait
// than a node stores answers for (ledger.MaxAnswers). Without the limit, a tenant with many shapes
// could make each report wake pods that other plugins refuse.
const maxAgain = 128

// again has the shapes that some node admits and may have admitted before. Their classes take
// turns. Every second turn goes to the class that is first in the order of the ring, so that a
// namespace with few classes gets a turn soon. The other turns go around the ring, so that every
// class gets a turn.
type again struct {
	// order has a class of each shape. later has the classes whose shape has already had its turn
	// since the pause.
	order, later order
	byShape      map[ledger.Shape]*renewal
	// at is the place of the class that had the last turn around the ring. fromStart means that the
	// last turn started at the start of the ring.
	at        place
	fromStart bool
	// spent is the number of woken pods since the last pause.
	spent int
	timed bool
}

// renewal is like a wakeRound, for a shape in again. All renewals share the budget maxAgain.
type renewal struct {
	shape ledger.Shape
	// node is the last node found to admit the shape. several means that other nodes admit the
	// shape too.
	node    Node
	several bool
	// room is the nodes' room for the shape. If room.pods is 0, the node must be asked again.
	room room
	// blamed and woken are as in wakeRound.
	blamed Node
	woken  map[string]bool
	// more means that a node has admitted the shape again after the first pods were woken. turned
	// means that the shape has had a turn since the last pause. It gets another turn if nodes have
	// more room.
	more, turned bool
}

// add queues a class for its shape's next turn.
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

// next returns the class that has the next turn, or nil if there is none or the budget is spent.
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
	m := found[0] // found is a part of the order itself
	if !a.fromStart {
		a.at = m.place
	}
	a.order.remove(m)
	return m
}
