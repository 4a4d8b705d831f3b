package wake

import (
	"slices"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// change is one or more changes of a node, with the position up to which the node was asked about
// the classes in the ring. The node is asked about each class once, in the order of the ring.
type change struct {
	node Node
	// changed means that NodeChanged was called. returned means that NodeReturned was called. Both
	// may be set.
	changed, returned bool
	// at is the place of the last asked class. The node is asked about the classes that follow in
	// the ring, up to its end, and then about the classes from the start of the ring to the place
	// stop.
	at, stop place
	// wrapped means that the end of the ring has been passed.
	wrapped bool
	// again means that the node has changed again before it was asked about all classes.
	again bool
}

// blamed returns the node that a pod must blame to be woken, or nil if the change also wakes pods
// that do not blame the node.
func (c *change) blamed() Node {
	if c.returned {
		return nil
	}
	return c.node
}

// question is a class about which a node is asked.
type question struct {
	class     class
	place     place
	candidate *ledger.Candidate
}

// next returns the next classes to ask about, at most limit. The result end means that the list
// ends at the end of the ring or at stop. The caller holds the lock.
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

// passed records that the node was asked about the first classes of list. The parameter asked is
// the number of these classes. passed reports whether the node was asked about all classes since
// its last change. The caller holds the lock.
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

// reach asks the node about one class, and returns which pods of the class the change wakes.
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

// behind tracks the changes of nodes that were not yet asked about all classes. The nodes take
// turns.
type behind struct {
	queue  []*change
	byNode map[Node]*change
	timed  bool
}
