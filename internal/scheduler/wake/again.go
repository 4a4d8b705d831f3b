package wake

import "github.com/berth-dev/berth/internal/ledger"

// maxAgain bounds the pods that are woken between two RoundPauses because a node takes them and
// nobody remembers whether it took them before, if more shapes wait than a node remembers answers
// to (ledger.MaxAnswers). Were there no bound, each report would wake pods that other plugins
// refuse, once a tenant has made so many shapes.
const maxAgain = 128

// again holds the shapes that some node takes, and may have taken before. Their classes have turns:
// one turn in two begins again with the first class of each namespace, the other goes on round the
// ring. So whoever has few classes is woken soon, and nobody waits for ever.
type again struct {
	// order has a class of each shape, later those whose shape has had its turn since the pause.
	order, later order
	byShape      map[ledger.Shape]*renewal
	// at is the class that had the last turn round the ring; fromStart says whose turn is next.
	at        place
	fromStart bool
	// spent is how many pods have been woken since the last pause.
	spent int
	timed bool
}

// renewal is a wakeRound that shares a budget with others.
type renewal struct {
	shape ledger.Shape
	// nodes that take the shape: the last that said so; several says that it was not the only one.
	node    Node
	several bool
	// room is what nodes have for the shape, as they have said. Without pods in it the node has to
	// be asked again.
	room room
	// blamed and woken are as in wakeRound.
	blamed Node
	woken  map[string]bool
	// more means that some node has said so again since the first were woken, turned that the shape
	// has had a turn since the last pause: it has another one if nodes say that they take more.
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

// next returns the class whose turn it is; nil if there is none, or the budget is spent.
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
