package wake

import (
	"slices"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// change is one or several changes of a node, and the position in the ring of classes that are
// asked about them. The classes are asked in the order of the ring, once around.
type change struct {
	node Node
	// changed: NodeChanged was called; returned: NodeReturned was called. Both may be set.
	changed, returned bool
	// at is the position of the last asked class, stop the end of the circle.
	at, stop place
	// wrapped: the end of the ring has been passed.
	wrapped bool
	// again: the node has changed while classes were asked.
	again bool
}

// blamed is the node that must have refused a pod for the pod to be asked about; nil for any node.
func (c *change) blamed() Node {
	if c.returned {
		return nil
	}
	return c.node
}

// question is a class to ask a node about.
type question struct {
	class     class
	place     place
	candidate *ledger.Candidate
}

// next returns the next classes to ask, at most limit, and whether the ring or the circle ends with
// them. The caller holds the lock.
func (c *change) next(r *ring, limit int) (list []question, end bool) {
	found, end := r.after(c.at, limit)
	if c.wrapped {
		if past := slices.IndexFunc(found, func(m *members) bool { return m.place.compare(c.stop) > 0 }); past >= 0 {
			found, end = found[:past], true
		}
	}
	for _, m := range found {
		list = append(list, question{m.class, m.place, m.candidate})
	}
	return list, end
}

// passed records that the first of the classes that next returned have been asked. It reports
// whether all classes have been asked since the last change. The caller holds the lock.
func (c *change) passed(list []question, asked int, end bool) (closed bool) {
	if asked > 0 {
		c.at = list[asked-1].place
	}
	switch {
	case c.again:
		c.again, c.wrapped, c.stop = false, false, c.at
	case asked < len(list) || !end:
	case c.wrapped:
		return true
	default:
		c.wrapped, c.at = true, start
		return c.stop == start
	}
	return false
}

// reach asks about one class.
func (c *change) reach(candidate *ledger.Candidate) reach {
	before, now := c.node.Shift(candidate)
	switch {
	case now.OK() && !c.returned && before.Outcome == ledger.Unreported:
		return wakePerhaps
	case now.OK() && (c.returned || !before.OK() || now.Exact && !before.Exact):
		return wakeRoom
	case now.Outcome == ledger.Waiting && c.returned:
		return wakeLater
	case now.OK() || now.Outcome == ledger.Waiting:
		return wakeNobody
	case c.returned && now.Outcome == ledger.Refused && now.Verdict.Scarcity == placement.Resolvable:
		return wakeAll
	case !c.changed:
		return wakeNobody
	case before.Outcome == ledger.Waiting:
		return wakeAll
	default:
		return wakeWaited
	}
}

// behind holds the changes about which some classes have not been asked. Nodes take turns.
type behind struct {
	queue  []*change
	byNode map[Node]*change
	timed  bool
}
