package ledger

import "github.com/berth-dev/berth/placement"

// outlook has the possible states of a node, computed from the facts.
type outlook struct {
	facts
	// horizon is the Node's horizon, which forget, compute and enqueue set.
	horizon *horizon
	// first has the states before the pods in flight. valid means that they were computed after the
	// last change of the facts.
	first worlds
	valid bool
	// forked means that the node is a fork. A plan needs exact states, so on a fork all orders are
	// tried (hasRoom). If there are too many, the plan uses another node or another wave.
	forked bool
	// line has all pods in flight. ordered means that the kubelet can admit them in only one order.
	line    []*pod
	ordered bool
	// base has the states after the posted pods. full has the states after the posted and reserved
	// pods. They are nil until a caller asks for them.
	base, full *worlds
	// steps has the states after the first 0, 1, 2 ... pods in flight, up to the largest number
	// that a caller asked for.
	steps []worlds
}

// forget discards computed states. Until the next computation, no candidate counts as following all
// pods in flight.
func (o *outlook) forget() {
	o.first, o.line, o.base, o.full, o.steps, o.valid = worlds{}, nil, nil, nil, nil, false
	o.horizon.set(afterAll, o.horizon.changes.InFlight())
}

// compute updates the states before the pods in flight, and the horizon.
func (o *outlook) compute() {
	switch {
	case o.valid:
		return
	case o.decides():
		o.computeHeld()
		return
	}
	o.first = o.initial(interchangeable)
	o.line = o.flight(true)
	o.ordered = inOneOrder(o.line, interchangeable)
	o.horizon.set(newestOf(o.line), len(o.line))
	o.valid = true
}

// afterPosted returns the states after the posted pods. They belong to the node.
func (o *outlook) afterPosted() *worlds {
	o.compute()
	if o.base == nil {
		w := o.afterAll(&o.first, o.flight(false), interchangeable)
		o.base = &w
	}
	return o.base
}

// afterReserved returns the states after the posted and the reserved pods. They belong to the node.
func (o *outlook) afterReserved() *worlds {
	o.compute()
	if o.full == nil {
		w := o.afterAll(&o.first, o.line, interchangeable)
		o.full = &w
	}
	return o.full
}

// computeHeld updates the single state of a node on which Berth decides.
func (o *outlook) computeHeld() {
	s := o.report.bare.Clone()
	for _, uid := range o.report.order {
		p, shown := o.pods[uid], o.report.pods[uid].alloc
		if p == nil || p.held == nil {
			s.Hold(&shown)
			continue
		}
		both := withShown(p.held, &shown)
		p.displaced = s.Hold(both)
	}
	for _, list := range [][]*pod{o.posted, o.afloat(), o.reserved} {
		for _, p := range list {
			p.holdIn(s)
		}
	}
	o.holdRests(s)
	o.first = worlds{model: o.report.Model, most: boundsOf(o.witnessing), all: []world{{state: s}}, shared: true}
	base, full := o.first.clone(), o.first.clone()
	o.base, o.full = &base, &full
	o.horizon.set(beforeAll, 0)
	o.ordered, o.valid = true, true
}

// comesLast reports whether the pod's result is as if the kubelet admitted it after all pods in
// flight.
func (o *outlook) comesLast(p *pod) bool {
	o.compute()
	return o.ordered && comesLast(o.line, p, interchangeable)
}

// enqueue adds a pod after all pods in flight. settled means that comesLast is true for the pod.
// The states after the pod are then computed from the states before it.
func (o *outlook) enqueue(p *pod, settled bool) {
	if o.full != nil && settled {
		o.full.admitNext(p)
	} else {
		o.full = nil
	}
	o.ordered = o.comesLast(p)
	o.line = append(o.line, p)
	o.horizon.set(max(o.horizon.newest, p.created), o.horizon.changes.InFlight()+1)
}

// likeliest returns the likeliest state after all pods in flight, or nil if no state is known.
func (o *outlook) likeliest() *placement.State {
	if o.report == nil {
		return nil
	}
	o.compute()
	w := o.full
	switch {
	case o.report.Amounts || o.decides():
		w = o.afterReserved()
	case w == nil || w.uncertain(): // the order of the Bindings is the likeliest order
		w = o.after(o.line, len(o.line))
	}
	if w.uncertain() {
		return nil
	}
	return w.all[0].state
}

// certain returns the state if all answers of the node depend only on this state. It returns nil if
// there are several states, if the order of pods matters, or if the node has Holdings.
func (o *outlook) certain() *placement.State {
	o.compute()
	if len(o.holdings) > 0 || o.wave() > 0 || !o.report.Amounts && !o.ordered {
		return nil
	}
	if w := o.afterReserved(); len(w.all) == 1 {
		return w.all[0].state
	}
	return nil
}

// after returns the states after the first pods of the flight. They belong to the node: the caller
// must clone them before a change.
func (o *outlook) after(flight []*pod, count int) *worlds {
	if len(o.steps) == 0 {
		o.steps = append(o.steps, o.first.clone())
	}
	for len(o.steps) <= count {
		last := len(o.steps) - 1
		w := o.steps[last].clone()
		if o.witnessing {
			w.end(o.endedBefore(flight[last]))
		}
		w.admitNext(flight[last])
		o.steps = append(o.steps, w)
	}
	return &o.steps[count]
}

// supposing returns the states after the posted pods and, if withReserved is set, after the
// reserved pods too. The caller then removes the given pods, so these pods do not exchange
// positions with others. The caller owns the result.
func (o *outlook) supposing(uids []string, withReserved bool) worlds {
	o.compute()
	if o.decides() {
		return o.afterReserved().clone()
	}
	apart := o.exchangeable(uids)
	switch {
	case len(apart) > 0 && !o.report.Amounts:
		same := sameness(interchangeable).except(apart...)
		first := o.initial(same)
		return first.admitAll(o.flight(withReserved), same)
	case withReserved:
		return o.afterReserved().clone()
	default:
		return o.afterPosted().clone()
	}
}
