package ledger

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// At every step of an admission, the kubelet's managers first free the resources of pods that are
// gone (removeStaleState). If a pod leaves in the middle of the admission, only the later
// containers of the admitted pod can get the CPUs of the pod that left. So the allocation of the
// admitted pod can differ from the one that it would get if the other pod left before or after the
// admission.
//
// If the admitted pod gets the same allocation in every world (package comment), it does not matter
// at which step other pods leave. If the allocations differ, the ledger also computes the worlds in
// which pods leave during the admission.

// maxMixed is the maximum number of ways in which one set of events can happen during one
// admission. If there are more, later pods wait for the node's next report. The limit is higher if
// another scheduler binds the pods (boundsOf).
const maxMixed = 256

// maxWays is the maximum number of ways in which events can happen during one admission, in total
// over all states. It applies if another scheduler binds the pods (Witness). Each way costs one
// decision, which takes some microseconds.
const maxWays = 1 << 15

// mixed returns the worlds that can result if possible events happen while the request is admitted.
// The argument events has the events that become possible with its admission.
func (w *worlds) mixed(r *placement.Request, events uint32) []world {
	if w.uncertain() || len(w.all) < 2 || w.alike(r) {
		return nil
	}
	w.ways = 0
	var out []world
	for _, v := range w.all {
		out = append(out, w.amid(v, r, events)...)
	}
	return out
}

// alike reports whether the request gets the same answer and the same allocation in every world.
func (w *worlds) alike(r *placement.Request) bool {
	first, other := decisions.Get().(*placement.Decision), decisions.Get().(*placement.Decision)
	defer decisions.Put(first)
	defer decisions.Put(other)
	admitted := placement.Decide(w.all[0].state, r, first)
	return !slices.ContainsFunc(w.all[1:], func(v world) bool {
		verdict := placement.Decide(v.state, r, other)
		return verdict.OK() != admitted.OK() || !Same(first, other)
	})
}

// amid returns the worlds that can result if some possible events of a world happen while that
// world admits the request. It returns none if these events make no difference.
func (w *worlds) amid(from world, r *placement.Request, events uint32) []world {
	if w.uncertain() || w.interrupting(from.open) == 0 {
		return nil
	}
	m := mixture{w: w, from: from, req: r, then: events}
	return m.worlds()
}

// lingering are pods that have ended, and whose resources the kubelet released shortly before or
// after the report. Only an admission that began before the report may still see them.
type lingering struct {
	from world
	uids []string
}

// amidLingering returns the worlds that can result from an admission that began before the report.
// During the first steps of this admission, or during all of them, the kubelet may still have
// counted any of the lingering pods. If the kubelet may have refused the pod, the report need not
// show this yet, and the next admission may also have begun before the report, so the lingering
// pods still count for it.
func (w *worlds) amidLingering(r *placement.Request, events uint32) []world {
	l := w.lingering
	if l == nil || w.uncertain() {
		return nil
	}
	m := mixture{w: w, from: l.from, gone: l.uids, req: r, then: events}
	late := m.worlds()
	if !m.refused {
		w.lingering = nil
	}
	return late
}

// minds reports whether the request's allocation can depend on the lingering pods.
func (l *lingering) minds(w *worlds, r *placement.Request) bool {
	own := w.clone()
	m := mixture{w: &own, from: l.from, gone: l.uids, req: r}
	if m.differs() || own.uncertain() {
		return true
	}
	var now, then outcome
	verdict := placement.Decide(w.all[0].state, r, &now.decision)
	now.ok = verdict.OK()
	return !m.decide(nil, &then).same(&now)
}

// interrupting returns the events of the set that can happen during an admission: all events except
// admissions.
func (w *worlds) interrupting(set uint32) (out uint32) {
	for rest := set; rest != 0; rest &= rest - 1 {
		if e := bits.TrailingZeros32(rest); w.events[e].kind != admit {
			out |= 1 << e
		}
	}
	return out
}

// mixture is one admission in one world, with events that happen during it.
type mixture struct {
	w    *worlds
	from world
	// gone has the UIDs of lingering pods. Each of them leaves before or during the admission, or
	// directly after it. The events in from.open may or may not happen during the admission.
	gone  []string
	req   *placement.Request
	steps int
	then  uint32 // events that become possible if the request is admitted
	out   []world
	// refused means that the request is refused in at least one of the cases that were tried.
	refused bool
}

type outcome struct {
	ok       bool
	decision placement.Decision
}

func (o *outcome) same(p *outcome) bool { return o.ok == p.ok && Same(&o.decision, &p.decision) }

func (m *mixture) worlds() []world {
	m.steps = m.w.model.Steps(m.req)
	if !m.differs() || m.w.uncertain() {
		return nil
	}
	over := m.w.interrupting(m.from.open)
	for set := over; ; set = (set - 1) & over {
		m.mix(set)
		if set == 0 || m.w.uncertain() {
			return m.out
		}
	}
}

// differs reports whether events during the admission can change the allocation of the request.
func (m *mixture) differs() bool {
	over := m.w.interrupting(m.from.open)
	if bits.OnesCount32(over)+len(m.gone) > m.w.most.events {
		m.w.giveUp(ManyEvents)
		return true
	}
	return !m.indifferent(over)
}

// decide sets o to the allocation of the request if these events happen during the admission.
func (m *mixture) decide(meanwhile []placement.Meanwhile, o *outcome) *outcome {
	verdict := placement.DecideAmid(m.from.state, m.req, meanwhile, &o.decision)
	if verdict.Reason == placement.KubeletDefect {
		m.w.giveUp(Unpredictable)
	}
	o.ok = verdict.OK()
	m.refused = m.refused || !o.ok
	return o
}

// indifferent reports whether the request gets the same allocation, whichever of the events happen
// before it.
func (m *mixture) indifferent(over uint32) bool {
	without, with := m.decide(nil, new(outcome)), new(outcome)
	for set := over; ; set = (set - 1) & over {
		all, ok := m.meanwhile(set)
		for some := range subsets(all[:len(m.gone)]) {
			if ok && !m.decide(append(some, all[len(m.gone):]...), with).same(without) {
				return false
			}
		}
		if set == 0 {
			return true
		}
	}
}

func subsets(all []placement.Meanwhile) iter.Seq[[]placement.Meanwhile] {
	return func(yield func([]placement.Meanwhile) bool) {
		for set := range 1 << len(all) {
			if !yield(subset(all, set)) {
				return
			}
		}
	}
}

// meanwhile lists the departures of the pods in m.gone and the events of a set, all with Step 0. ok
// is false if a pod has two events.
func (m *mixture) meanwhile(set uint32) (all []placement.Meanwhile, ok bool) {
	for _, uid := range m.gone {
		all = append(all, placement.Meanwhile{UID: uid})
	}
	for rest := set; rest != 0; rest &= rest - 1 {
		e := &m.w.events[bits.TrailingZeros32(rest)]
		if slices.ContainsFunc(all, func(o placement.Meanwhile) bool { return o.UID == e.uid }) {
			return all, false
		}
		all = append(all, placement.Meanwhile{UID: e.uid, Container: e.container})
	}
	return all, true
}

// mix adds the worlds in which all events of the set happen during the admission.
func (m *mixture) mix(set uint32) {
	meanwhile, ok := m.meanwhile(set)
	if !ok || len(meanwhile) == 0 {
		return
	}
	moments, ways := make([][]int, len(meanwhile)), 1
	for i := range meanwhile {
		moments[i] = m.moments(meanwhile[i], i < len(m.gone))
		ways = min(ways*len(moments[i]), m.w.most.mixed+1)
	}
	if m.w.ways += ways; ways > m.w.most.mixed || m.w.ways > m.w.most.ways {
		m.w.giveUp(ManyStates)
		return
	}
	seen, o := []*outcome{m.decide(meanwhile, new(outcome))}, new(outcome)
	for way := range ways {
		for i := range meanwhile {
			meanwhile[i].Step = moments[i][way%len(moments[i])]
			way /= len(moments[i])
		}
		if !slices.ContainsFunc(seen, m.decide(meanwhile, o).same) {
			m.out = append(m.out, m.after(set, meanwhile, o))
			seen, o = append(seen, o), new(outcome)
		}
	}
}

// moments returns the steps of the admission directly before which the event can change the result.
// A gone pod may also leave after the last step. If no pods are gone, moments leaves out the first
// of these steps: an event directly before that step has the same effect as an event before the
// admission, which another world covers.
func (m *mixture) moments(e placement.Meanwhile, gone bool) (steps []int) {
	for e.Step = range m.steps {
		if m.from.state.Notices(&e) {
			steps = append(steps, e.Step)
		}
	}
	switch {
	case gone:
		return append(steps, m.steps)
	case len(m.gone) == 0 && len(steps) > 0:
		return steps[1:]
	}
	return steps
}

// after returns the world after the admission: all events of the set have happened and, if the
// request was admitted, it has its allocation.
func (m *mixture) after(set uint32, meanwhile []placement.Meanwhile, o *outcome) world {
	to := world{state: m.from.state.Clone(), open: m.from.open &^ set}
	for rest := set; rest != 0; rest &= rest - 1 {
		e := &m.w.events[bits.TrailingZeros32(rest)]
		if to.open |= e.then; e.kind == release {
			to.open &^= m.w.eventsOf(e.uid)
		}
	}
	if !o.ok {
		to.state.Happen(meanwhile)
		return to
	}
	to.state.CommitAmid(m.req, meanwhile, &o.decision)
	to.open |= m.then
	return to
}
