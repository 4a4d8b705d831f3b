package ledger

import "github.com/berth-dev/berth/placement"

// outlook is the states that a node may be in, as they follow from the facts.
type outlook struct {
	facts
	// horizon is that of the Node. forget, compute and admitLast set it.
	horizon *horizon
	// first holds the states before the pods in flight, base those after the posted ones, full
	// those after the reserved ones too. valid says that they have been computed since the facts
	// changed.
	first, base, full worlds
	valid             bool
	// steps holds the states after none, one, two ... of the pods in flight, as far as anyone has
	// asked for them.
	steps []worlds
}

// forget drops what was computed. No pod follows all pods in flight until they are counted again.
func (o *outlook) forget() {
	o.first, o.base, o.full, o.steps, o.valid = worlds{}, worlds{}, worlds{}, nil, false
	o.horizon.set(afterAll, o.horizon.changes.InFlight())
}

// compute brings the states up to date.
func (o *outlook) compute() {
	switch {
	case o.valid:
		return
	case o.decides():
		o.computeHeld()
		return
	}
	o.first = o.initial(interchangeable)
	posted, all := o.flight(false), o.flight(true)
	o.base = o.afterAll(&o.first, posted, interchangeable)
	if len(all) == len(posted) {
		o.full = o.base.clone()
	} else {
		o.full = o.afterAll(&o.first, all, interchangeable)
	}
	o.horizon.set(newestOf(all), len(all))
	o.valid = true
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
	o.base, o.full = o.first.clone(), o.first.clone()
	o.horizon.set(beforeAll, 0)
	o.valid = true
}

// admitLast admits a pod after everything in flight.
func (o *outlook) admitLast(p *pod) {
	o.full.admitNext(p)
	o.horizon.set(max(o.horizon.newest, p.created), o.horizon.changes.InFlight()+1)
}

// likeliest returns the likeliest state after everything in flight; nil where there is none to
// speak of.
func (o *outlook) likeliest() *placement.State {
	if o.report == nil {
		return nil
	}
	o.compute()
	if o.full.uncertain() {
		return nil
	}
	return o.full.all[0].state
}

// certain returns the state that decides what the node answers; nil where there are several, and
// where more than a state decides: neither what is held for others is part of it where a kubelet
// decides, nor an order.
func (o *outlook) certain() *placement.State {
	o.compute()
	if o.full.uncertain() || len(o.full.all) != 1 || len(o.holdings) > 0 || o.wave() > 0 {
		return nil
	}
	return o.full.all[0].state
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
		return o.full.clone()
	}
	apart := o.exchangeable(uids)
	switch {
	case len(apart) > 0 && !o.report.Amounts:
		same := sameness(interchangeable).except(apart...)
		first := o.initial(same)
		return first.admitAll(o.flight(withReserved), same)
	case withReserved:
		return o.full.clone()
	default:
		return o.base.clone()
	}
}
