package enforce

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/topology"
)

// lossy is a runtime that loses moves of containers that have not started, as containerd does.
type lossy struct {
	b       *Books
	unasked bool // it accepts moves that it did not ask for
	r       *rand.Rand
	all     map[string]*lossyContainer
	sent    []Update // moves in flight that it did not ask for
}

type lossyContainer struct {
	Container
	runs            Set
	started, pinned bool
}

func (l *lossy) apply(updates []Update) {
	for _, u := range updates {
		if c := l.all[u.ID]; c != nil && c.started {
			c.runs = u.Set
		}
	}
}

func (l *lossy) send(u Update, due bool) {
	if due && l.unasked {
		l.b.Moving(u)
		l.sent = append(l.sent, u)
	}
}

// deliver carries out one move in flight.
func (l *lossy) deliver() {
	u := l.sent[0]
	l.sent = l.sent[1:]
	l.apply([]Update{u})
	l.send(l.b.Moved(u))
}

func (l *lossy) pick(which func(*lossyContainer) bool) *lossyContainer {
	var ids []string
	for id, c := range l.all {
		if which(c) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return l.all[ids[l.r.IntN(len(ids))]]
}

func (l *lossy) create(t *testing.T, i int) {
	c := shared(fmt.Sprint("s", i))
	pinned := l.r.IntN(2) == 0
	if pinned {
		from := 1 + l.r.IntN(14)
		c = pinnedTo(fmt.Sprint("p", i), fmt.Sprintf("%d-%d", from, min(15, from+l.r.IntN(3))))
	}
	set, updates, err := l.b.Create(c)
	if err != nil {
		return
	}
	l.apply(updates)
	l.all[c.ID] = &lossyContainer{Container: c, runs: set, pinned: pinned}
}

func (l *lossy) end(c *lossyContainer) {
	delete(l.all, c.ID)
	l.apply(l.b.Stop(c.ID))
	l.b.Remove(c.ID)
	l.b.RemovePod(c.Pod)
}

// restart restarts the agent.
func (l *lossy) restart(t *testing.T) {
	l.b, l.sent = newBooks(t, Hold), nil
	var there []Container
	for _, id := range slices.Sorted(maps.Keys(l.all)) {
		c := l.all[id]
		if !c.started && l.r.IntN(2) == 0 {
			c.runs = Set{CPUs: l.b.machine.Online} // it was created while the agent did not run
		}
		c.Now, c.Begins = c.runs, !c.started
		there = append(there, c.Container)
	}
	l.apply(l.b.Synchronize(there))
}

// check compares the CPUs of running containers with those that are pinned.
func (l *lossy) check() error {
	for _, c := range l.all {
		var others topology.CPUSet
		for _, o := range l.all {
			if o.pinned && o.started && o.ID != c.ID {
				others = others.Or(&o.runs.CPUs)
			}
		}
		switch {
		case !c.started:
		case c.runs.CPUs.IsEmpty() || c.runs.CPUs.Intersects(&others):
			return fmt.Errorf("%s runs on %q, and others have %s", c.ID, c.runs.CPUs, others)
		case c.pinned && c.runs.CPUs != c.Decision.CPUs:
			return fmt.Errorf("%s runs on %s beside its decision %s", c.ID, c.runs.CPUs, c.Decision.CPUs)
		}
	}
	return l.b.check()
}

// TestRuntimesThatLoseMoves: whatever the runtime loses, no shared container runs on CPUs of a
// running pinned container. After a restart of the agent, this is true as soon as the moves that it
// sends have arrived.
func TestRuntimesThatLoseMoves(t *testing.T) {
	begun := func(c *lossyContainer) bool { return c.started }
	pinned := 0
	for seed := range uint64(300) {
		l := &lossy{b: newBooks(t, Hold), r: rand.New(rand.NewPCG(seed, 3)), unasked: seed%3 > 0, all: map[string]*lossyContainer{}}
		restarts := seed%3 == 2
		for i := range 120 {
			switch n := l.r.IntN(10); {
			case n < 4:
				l.create(t, i)
			case n < 7:
				if c := l.pick(func(c *lossyContainer) bool { return !c.started }); c != nil {
					c.started = true
					l.send(l.b.Begun(c.ID))
				}
			case n < 8 && len(l.sent) > 0:
				l.deliver()
			case n < 9 || !restarts:
				if c := l.pick(begun); c != nil && len(l.all) > 4 {
					l.end(c)
				}
			default:
				l.restart(t)
			}
			for restarts && len(l.sent) > 0 {
				l.deliver()
			}
			if err := l.check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
			if c := l.pick(func(c *lossyContainer) bool { return c.pinned && c.started }); c != nil {
				pinned++
			}
		}
	}
	if pinned < 15000 {
		t.Errorf("pinned containers ran in %d steps: this shows little", pinned)
	}
}
