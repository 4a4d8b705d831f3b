package ledger

import "github.com/berth-dev/berth/placement"

// outlook is the states that a node may be in, as they follow from the facts.
type outlook struct {
	facts
	// horizon is that of the Node. forget, compute and enqueue set it.
	horizon *horizon
	// first holds the states before the pods in flight. valid says that they have been computed
	// since the facts changed.
	first worlds
	valid bool
	// forked: the node is a fork. A plan there wants the states after its pods, which only their
	// orders tell, and puts a pod elsewhere, or in a wave of its own, before these are too many.
	forked bool
	// line is all pods in flight, and ordered says that they come in one order alone.
	line    []*pod
	ordered bool
	// base holds the states after the posted pods, full those after the reserved ones too; nil
	// while nobody has asked for them.
	base, full *worlds
	// steps holds the states after none, one, two ... of the pods in flight, as far as anyone has
	// asked for them.
	steps []worlds
}

// forget drops what was computed. No pod follows all pods in flight until they are counted again.
func (o *outlook) forget() {
	o.first, o.line, o.base, o.full, o.steps, o.valid = worlds{}, nil, nil, nil, nil, false
	o.horizon.set(afterAll, o.horizon.changes.InFlight())
}

// compute brings the states before the pods in flight up to date, and the horizon.
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

// afterPosted returns the states after the posted pods, which are the node's.
func (o *outlook) afterPosted() *worlds {
	o.compute()
	if o.base == nil {
		w := o.afterAll(&o.first, o.flight(false), interchangeable)
		o.base = &w
	}
	return o.base
}

// afterReserved returns the states after the posted and the reserved pods, which are the node's.
func (o *outlook) afterReserved() *worlds {
	o.compute()
	if o.full == nil {
		w := o.afterAll(&o.first, o.line, interchangeable)
		o.full = &w
	}
	return o.full
}

// computeHeld brings the one state up to date.
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
	o.first = worlds{model: o.report.Model, all: []world{{state: s}}, shared: true}
	base, full := o.first.clone(), o.first.clone()
	o.base, o.full = &base, &full
	o.horizon.set(beforeAll, 0)
	o.ordered, o.valid = true, true
}

// comesLast reports whether it makes no difference when the kubelet admits the pod among those in
// flight, and when it admits these.
func (o *outlook) comesLast(p *pod) bool {
	o.compute()
	return o.ordered && comesLast(o.line, p, interchangeable)
}

// enqueue puts a pod behind all in flight. settled says that the kubelet admits it after these, or
// that it makes no difference when: the states after all of them then follow from those before it.
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

// likeliest returns the likeliest state after everything in flight; nil if no state is known.
func (o *outlook) likeliest() *placement.State {
	if o.report == nil {
		return nil
	}
	o.compute()
	w := o.full
	switch {
	case o.report.Amounts || o.decides():
		w = o.afterReserved()
	case w == nil || w.uncertain(): // go by the order of the Bindings alone
		w = o.after(o.line, len(o.line))
	}
	if w.uncertain() {
		return nil
	}
	return w.all[0].state
}

// certain returns the state that decides what the node answers; nil if there are several, and if
// more than a state decides: neither what is held for others is part of it if a kubelet decides,
// nor an order.
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

// after returns the states after the first pods of the flight. They are the node's: the caller
// clones them.
func (o *outlook) after(flight []*pod, count int) *worlds {
	if len(o.steps) == 0 {
		o.steps = append(o.steps, o.first.clone())
	}
	for len(o.steps) <= count {
		last := len(o.steps) - 1
		w := o.steps[last].clone()
		w.admitNext(flight[last])
		o.steps = append(o.steps, w)
	}
	return &o.steps[count]
}

// supposing returns the states from which to ask what would be without these pods. They come after
// the posted pods and, if asked for, the reserved ones. Pods that could change places are told
// apart here. The caller owns the result.
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
