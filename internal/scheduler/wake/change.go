package wake

import (
	"slices"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// What a change of a node may cost, however many classes of pods want a node, and whatever a node
// that reports on purpose makes of a question.
const (
	// maxAsked bounds the classes that a change is put to at once. For each shape that the node
	// takes now, its room is counted as well: maxRoom questions more.
	maxAsked = 128
	// maxBehind bounds the classes that are asked about behind, in all, after each RoundPause.
	maxBehind = 4 * maxAsked
	// maxAskTime ends a change's first questions, and those asked behind after a RoundPause: they
	// take a twentieth of one CPU at most, except for the length of one question.
	maxAskTime = RoundPause / 20
)

// start is before every place in a ring.
var start = place{lane: -1}

// change is one or several changes of a node, and how far the classes have been asked about them.
// They are asked in the order of the ring, round to where the last change found them.
type change struct {
	node Node
	// changed: NodeChanged; returned: NodeReturned. Both, where one followed the other.
	changed, returned bool
	// at is the place of the class that was asked last, stop where the circle closes.
	at, stop place
	// wrapped: the end of the ring has been passed.
	wrapped bool
	// again: the node has changed while classes were asked.
	again bool
}

// blamed is the node that pods must blame; nil: whichever.
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

// next returns the classes whose turn it is, at most limit, and whether the ring or the circle ends
// with them. The caller holds the lock.
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

// passed notes that the first classes of the ones that next returned have been asked. It says
// whether all classes have been by now, since the last change. The caller holds the lock.
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

// replies are what a node said about several classes.
type replies struct {
	reached map[class]reach
	// room is how many pods of a shape the node has room for, news which shapes it takes for
	// certain since the change alone.
	room map[ledger.Shape]int
	news map[ledger.Shape]bool
}

// wake puts a change to the first classes of the ring. The others are asked behind.
func (w *Waiters) wake(c *change) {
	c.at, c.stop = start, start
	w.mu.RLock()
	list, end := c.next(&w.ring, maxAsked)
	w.mu.RUnlock()
	said, asked := w.ask(c, list)
	closed := c.passed(list, asked, end)
	if closed && len(said.reached) == 0 {
		return
	}
	pods := batch{}
	w.mu.Lock()
	w.follow(c, &said, pods)
	if !closed {
		w.fallBehind(c)
	}
	w.mu.Unlock()
	w.activate(pods)
	w.renew()
}

// ask asks the node about the classes while that does not take too long, and says how many it was
// asked about. The caller does not hold the lock: a question may take its time.
func (w *Waiters) ask(c *change, list []question) (said replies, asked int) {
	begun := w.edge.Now()
	for i := range list {
		if i > 0 && w.edge.Now().Sub(begun) >= maxAskTime {
			return said, i
		}
		q := &list[i]
		r := c.reach(q.candidate)
		if r == wakeNobody {
			continue
		}
		if said.reached == nil {
			said.reached, said.room, said.news = map[class]reach{}, map[ledger.Shape]int{}, map[ledger.Shape]bool{}
		}
		said.reached[q.class] = r
		if r == wakeRoom {
			said.news[q.class.shape] = true
		}
		if _, known := said.room[q.class.shape]; (r == wakeRoom || r == wakePerhaps) && !known {
			said.room[q.class.shape] = max(1, c.node.View().Room(q.candidate, maxRoom))
		}
	}
	return said, len(list)
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

// behind holds the changes that some classes have not been put to. Nodes take turns.
type behind struct {
	queue  []*change
	byNode map[Node]*change
	timed  bool
}

// fallBehind has the classes that a change has not been put to be asked later. The caller holds the
// lock.
func (w *Waiters) fallBehind(c *change) {
	b := &w.behind
	if before := b.byNode[c.node]; before != nil {
		before.changed, before.returned = before.changed || c.changed, before.returned || c.returned
		before.again = true
		return
	}
	b.byNode[c.node] = c
	b.queue = append(b.queue, c)
	if !b.timed {
		b.timed = true
		w.edge.After(RoundPause, w.catchUp)
	}
}

// catchUp asks about classes that nodes have not been asked about since they changed.
func (w *Waiters) catchUp() {
	begun := w.edge.Now()
	for left := maxBehind; left > 0 && w.edge.Now().Sub(begun) < maxAskTime; {
		t, ok := w.nextBehind(min(left, maxAsked))
		if !ok {
			break
		}
		said, asked := w.ask(&t.as, t.list)
		w.caughtUp(&t, &said, asked)
		left -= asked
	}
	w.renew()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.behind.timed = len(w.behind.queue) > 0; w.behind.timed {
		w.edge.After(RoundPause, w.catchUp)
	}
}

// turn is that of one change which has fallen behind.
type turn struct {
	of *change
	// as is the change as it was when the turn began: the node may change again meanwhile.
	as   change
	list []question
	// end: the ring or the circle ends with the list.
	end bool
}

// nextBehind takes the change whose turn it is from the queue; false if there is none.
func (w *Waiters) nextBehind(limit int) (turn, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.behind
	if len(b.queue) == 0 {
		return turn{}, false
	}
	t := turn{of: b.queue[0], as: *b.queue[0]}
	b.queue = b.queue[1:]
	t.list, t.end = t.of.next(&w.ring, limit)
	return t, true
}

// caughtUp wakes pods by what a node has said, and puts the change back into the queue unless its
// circle is closed now.
func (w *Waiters) caughtUp(t *turn, said *replies, asked int) {
	pods := batch{}
	w.mu.Lock()
	w.follow(&t.as, said, pods)
	if t.of.passed(t.list, asked, t.end) {
		delete(w.behind.byNode, t.of.node)
	} else {
		w.behind.queue = append(w.behind.queue, t.of)
	}
	w.mu.Unlock()
	w.activate(pods)
}
