package ledger

import (
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// maxEvents is how many events of unknown moment a node may have; with more, its pods wait for a report.
const maxEvents = 6

// maxWorlds is how many states of a node are considered; with more, its pods wait for a report.
const maxWorlds = 96

type eventKind uint8

const (
	// release: the pod ends, and the kubelet releases what it holds.
	release eventKind = iota
	// start: a container starts, and the memory of init containers before it is freed.
	start
	// admit: a pod whose place in the order is not known is admitted.
	admit
)

// event is something that may happen at any moment, or may have happened already, without anyone having told us.
type event struct {
	kind eventKind
	uid  string
	// container is the one that starts.
	container string
	// req is what the pod to be admitted asks for.
	req *placement.Request
	// then is the set of events that become possible by this one.
	then uint32
}

// world is one state that the node may be in.
type world struct {
	state *placement.State
	// open is the set of events that are possible here and have not happened.
	open uint32
}

// worlds is every state that a node may be in.
type worlds struct {
	model *placement.Model
	// pinsMemory says that the memory manager keeps books, so that starts matter.
	pinsMemory bool

	events []event
	// after holds the events of pods in flight, by UID.
	after map[string]uint32
	all   []world
	// why is set when there are too many possibilities to go through; it stays so.
	why Wait
	// shared says that the states belong to somebody else and must be copied before they are changed.
	shared bool
}

// uncertain says whether there are too many possibilities to go through.
func (w *worlds) uncertain() bool { return w.why != WaitsForNothing }

// giveUp is called when there are too many possibilities.
func (w *worlds) giveUp(why Wait) {
	w.all = nil
	if w.why == WaitsForNothing {
		w.why = why
	}
}

// clone returns a set whose changes do not reach w.
func (w *worlds) clone() worlds {
	c := *w
	c.all = slices.Clone(w.all)
	c.events = slices.Clip(w.events)
	c.shared = true
	return c
}

// own makes the states ours.
func (w *worlds) own() {
	if !w.shared {
		return
	}
	for i := range w.all {
		w.all[i].state = w.all[i].state.Clone()
	}
	w.shared = false
}

// addEvent makes an event known, and returns its bit; 0 when there are too many.
func (w *worlds) addEvent(e event) uint32 {
	if len(w.events) >= maxEvents {
		w.giveUp(ManyEvents)
		return 0
	}
	w.events = append(w.events, e)
	return 1 << (len(w.events) - 1)
}

// open makes the events possible in every world, and goes through what follows.
func (w *worlds) open(set uint32) {
	if set == 0 || w.uncertain() {
		return
	}
	for i := range w.all {
		w.all[i].open |= set
	}
	w.close()
}

// close adds every world that can be reached by events.
func (w *worlds) close() {
	if !w.anyOpen() {
		return
	}
	w.own()
	for i := 0; i < len(w.all); i++ {
		for set := w.all[i].open; set != 0; set &= set - 1 {
			w.add(w.happen(w.all[i], bits.TrailingZeros32(set)))
			if w.uncertain() {
				return
			}
		}
	}
}

func (w *worlds) anyOpen() bool {
	return slices.ContainsFunc(w.all, func(v world) bool { return v.open != 0 })
}

// happen returns the world in which event e has happened.
func (w *worlds) happen(from world, e int) world {
	ev := &w.events[e]
	to := world{state: from.state.Clone(), open: from.open&^(1<<e) | ev.then}
	switch ev.kind {
	case release:
		to.state.Release(ev.uid)
		to.open &^= w.eventsOf(ev.uid)
	case start:
		to.state.Start(ev.uid, []string{ev.container})
	case admit:
		if !w.commit(&to, ev.req) {
			to.open &^= w.eventsOf(ev.uid)
		}
	}
	return to
}

// eventsOf returns the events of one pod: none is possible once it has ended.
func (w *worlds) eventsOf(uid string) uint32 {
	var set uint32
	for i := range w.events {
		if w.events[i].uid == uid {
			set |= 1 << i
		}
	}
	return set
}

// add adds a world unless it is there already.
func (w *worlds) add(v world) {
	if w.uncertain() {
		return
	}
	for i := range w.all {
		if w.all[i].open == v.open && sameState(w.all[i].state, v.state) {
			return
		}
	}
	if len(w.all) >= maxWorlds {
		w.giveUp(ManyStates)
		return
	}
	w.all = append(w.all, v)
}

// commit admits the request in one world, as the kubelet would, and says whether it was admitted. A kubelet that would
// hang, crash or corrupt its books over a pod that is on its way cannot be predicted any more.
func (w *worlds) commit(v *world, r *placement.Request) bool {
	d := decisions.Get().(*placement.Decision)
	defer decisions.Put(d)
	verdict := placement.Decide(v.state, r, d)
	if verdict.OK() {
		v.state.Commit(r, d)
	}
	if verdict.Reason == placement.KubeletDefect {
		w.giveUp(Unpredictable)
	}
	return verdict.OK()
}

// admit admits the request in every world that takes it; where optional, also the worlds in which it never arrived
// are kept. The events become possible where it was admitted.
func (w *worlds) admit(r *placement.Request, optional bool, events uint32) {
	if w.uncertain() {
		return
	}
	var without []world
	if optional {
		without = slices.Clone(w.all)
		for i := range without {
			without[i].state = without[i].state.Clone()
		}
	}
	w.own()
	for i := 0; i < len(w.all); i++ {
		if w.commit(&w.all[i], r) {
			w.all[i].open |= events
		}
	}
	for i := range without {
		w.add(without[i])
	}
	w.close()
}

// sameState says whether two states are equal.
func sameState(a, b *placement.State) bool { return a.Equal(b) }
