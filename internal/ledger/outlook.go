package ledger

import "github.com/berth-dev/berth/placement"

// outlook has the possible states of a node, which are computed from the facts, and the answers
// that were given in these states.
type outlook struct {
	changes *ChangeCounter
	answers answerCache
	facts   facts
	// first has the states before the pods in flight.
	first worlds
	// valid means that first was computed after the last change of the facts.
	valid bool
	// forked means that the node is a fork. A plan needs exact states, so on a fork all orders are
	// tried (hasRoom). If there are too many orders, the plan puts the pod on another node or in
	// another wave.
	forked bool
	// ordered means that the kubelet can admit the pods in line in only one order, apart from
	// exchanges of pods with equal requests.
	ordered bool
	// line has the pods in flight that facts.flight returns.
	line []*pod
	// base has the states after the posted pods. full has the states after the posted and reserved
	// pods. base and full are nil until a caller asks for them.
	base, full *worlds
	// steps has the states after the first 1, 2 ... pods in flight, up to the largest number that a
	// caller asked for.
	steps []worlds
}

// changed discards the computed states after a change of the facts, and makes the stored answers
// stale. Until the next computation, no candidate counts as following all pods in flight.
func (o *outlook) changed() {
	o.noteUnshown()
	o.first, o.line, o.base, o.full, o.steps, o.valid = worlds{}, nil, nil, nil, nil, false
	o.changes.setFlight(afterAll, o.changes.InFlight())
	o.stale()
}

// stale counts a change, and makes the stored answers stale.
func (o *outlook) stale() {
	o.changes.Bump()
	o.answers.stale()
}

// noteUnshown stores unshownCPUs in the ChangeCounter. The number can grow with a new report, or if
// a pod that a report lists is taken back.
func (o *outlook) noteUnshown() { o.changes.unshown.Store(int32(o.facts.unshownCPUs(nil))) }

// compute updates the states before the pods in flight, and stores the number of pods in flight in
// the ChangeCounter.
func (o *outlook) compute() {
	switch {
	case o.valid:
		return
	case o.facts.decides():
		o.computeHeld()
		return
	}
	o.first = o.facts.initial(interchangeable)
	o.line = o.facts.flight(true)
	o.ordered = inOneOrder(o.line, interchangeable)
	o.changes.setFlight(newestOf(o.line), len(o.line))
	o.valid = true
}

// afterPosted returns the states after the posted pods. The states belong to the node.
func (o *outlook) afterPosted() *worlds {
	o.compute()
	if o.base == nil {
		w := o.facts.afterAll(&o.first, o.facts.flight(false))
		o.base = &w
	}
	return o.base
}

// afterReserved returns the states after the posted and the reserved pods. The states belong to the
// node.
func (o *outlook) afterReserved() *worlds {
	o.compute()
	if o.full == nil {
		w := o.facts.afterAll(&o.first, o.line)
		o.full = &w
	}
	return o.full
}

// computeHeld updates the single state of a node on which Berth decides.
func (o *outlook) computeHeld() {
	s := o.facts.report.bare.Clone()
	for _, uid := range o.facts.report.order {
		p, shown := o.facts.pods.byUID[uid], o.facts.report.pods[uid].alloc
		if p == nil || p.held == nil {
			s.Hold(&shown)
			continue
		}
		both := withShown(p.held, &shown)
		p.displaced = s.Hold(both)
	}
	for _, list := range [][]*pod{o.facts.pods.posted, o.facts.pods.afloat(), o.facts.pods.reserved} {
		for _, p := range list {
			p.holdIn(s)
		}
	}
	o.facts.holdRests(s)
	o.first = worlds{model: o.facts.report.Model, most: boundsOf(o.facts.witnessing), all: []world{{state: s}}, shared: true}
	base, full := o.first.clone(), o.first.clone()
	o.base, o.full = &base, &full
	o.changes.setFlight(beforeAll, 0)
	o.ordered, o.valid = true, true
}

// comesLast reports whether the pod's result is as if the kubelet admitted it after all pods in
// flight.
func (o *outlook) comesLast(p *pod) bool {
	o.compute()
	return o.ordered && comesLast(o.line, p, interchangeable)
}

// enqueue adds a pod after all pods in flight. settled means that the pod is the last one in every
// order in which the kubelet could admit the pods. The states after the pod are then computed from
// the states before it.
func (o *outlook) enqueue(p *pod, settled bool) {
	if o.full != nil && settled {
		o.full.admitNext(p)
	} else {
		o.full = nil
	}
	o.ordered = o.comesLast(p)
	o.line = append(o.line, p)
	o.changes.setFlight(max(o.changes.newest.Load(), p.created), o.changes.InFlight()+1)
}

// likeliest returns the likeliest state after all pods in flight, or nil if no state is known.
func (o *outlook) likeliest() *placement.State {
	if o.facts.report == nil {
		return nil
	}
	o.compute()
	w := o.full
	switch {
	case o.facts.report.Amounts || o.facts.decides():
		w = o.afterReserved()
	case w == nil || w.uncertain(): // the order of the Bindings is the likeliest order
		w = o.after(o.line, len(o.line))
	}
	if w.uncertain() {
		return nil
	}
	return w.all[0].state
}

// certain returns the state on which all answers of the node depend. It returns nil if there are
// several states, if the order of pods matters, if pods are posted in waves, or if the node has
// Holdings.
func (o *outlook) certain() *placement.State {
	o.compute()
	if len(o.facts.holdings) > 0 || o.facts.wave() > 0 || !o.facts.report.Amounts && !o.ordered {
		return nil
	}
	if w := o.afterReserved(); len(w.all) == 1 {
		return w.all[0].state
	}
	return nil
}

// after returns the states after the first count of these pods in flight, in the given order. The
// states belong to the node: the caller must clone them before a change.
func (o *outlook) after(flight []*pod, count int) *worlds {
	last := &o.first
	for i := range count {
		if i == len(o.steps) {
			w := last.clone()
			if o.facts.witnessing {
				w.end(o.facts.pods.endedBefore(flight[i]))
			}
			w.admitNext(flight[i])
			o.steps = append(o.steps, w)
		}
		last = &o.steps[i]
	}
	return last
}

// supposing returns the states after the posted pods and, if withReserved is set, after the
// reserved pods too. The caller then removes the given pods, so the orders in which they exchange
// positions with other pods are computed too. The caller owns the result.
func (o *outlook) supposing(uids []string, withReserved bool) worlds {
	o.compute()
	if o.facts.decides() {
		return o.afterReserved().clone()
	}
	apart := o.facts.pods.exchangeable(uids)
	switch {
	case len(apart) > 0 && !o.facts.report.Amounts:
		same := sameness(interchangeable).except(apart...)
		first := o.facts.initial(same)
		return first.admitAll(o.facts.flight(withReserved), same)
	case withReserved:
		return o.afterReserved().clone()
	default:
		return o.afterPosted().clone()
	}
}
