package wake

import (
	"slices"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/turns"
)

// maxAgain is the maximum number of pods that are woken per RoundPause although the changed node
// may have admitted them before its change too. Whether it did is not known if more shapes wait
// than a node stores answers for (ledger.MaxAnswers). Without the limit, a tenant with many shapes
// could make each report wake pods that other plugins refuse.
const maxAgain = 128

// again tracks the shapes that a changed node admits, but may have admitted before the change too.
// Classes take turns. The turn of a class wakes pods of its shape, whatever their class.
type again struct {
	// line has the classes that wait for a turn. Namespaces take turns, so a class of a namespace
	// with few classes does not wait long. later has the classes whose shape has already had a turn
	// since the last pause.
	line    turns.Line[*members]
	later   []*members
	byShape map[ledger.Shape]*renewal
	// spent is the number of pods that were woken since the last pause; maxAgain limits it.
	spent int
	timed bool
}

// renewal is a round for a shape in again. Its node is the last node found to admit the shape. All
// renewals share the budget maxAgain.
type renewal struct {
	wakeRound
	// several means that other nodes admit the shape too.
	several bool
	// room is the nodes' room for the shape. If room.pods is 0, the node must be asked again.
	room room
	// more means that a node has admitted the shape again after the first pods were woken. turned
	// means that the shape has had a turn since the last pause. Such a shape gets another turn only
	// if nodes have more room.
	more, turned bool
}

// add queues a class for its shape's next turn.
func (a *again) add(m *members) {
	switch r := a.byShape[m.class.shape]; {
	case m.inLine:
	case r.turned && r.room.pods == 0:
		a.later = append(a.later, m)
	default:
		m.inLine = true
		a.line.Push(m.class.namespace, m)
	}
}

func (a *again) remove(m *members) {
	if m.inLine {
		a.line.Drop(m.class.namespace, m)
	}
	a.later = slices.DeleteFunc(a.later, func(other *members) bool { return other == m })
}

// next returns the class that has the next turn, or nil if there is none or the budget is spent.
func (a *again) next() *members {
	if a.spent >= maxAgain {
		return nil
	}
	namespace, m, ok := a.line.Pop()
	if ok {
		a.line.Done(namespace)
		m.inLine = false
	}
	return m
}
