package ledger

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Fork returns an independent copy of the node. A plan reserves pods on a fork to learn the answers
// that the node would give. Forks are short-lived: they receive no reports and no Sightings.
func (n *Node) Fork() *Node {
	o := n.lock()
	defer n.mu.Unlock()
	fork := newNode(new(ChangeCounter), n.stateIDs, o.facts.fork())
	f := &fork.outlook
	f.forked = true
	if o.facts.report != nil {
		full := o.afterReserved()
		o.first.shared, full.shared = true, true
		all := full.clone()
		f.first, f.full = o.first.clone(), &all
		if o.base != nil {
			o.base.shared = true
			posted := o.base.clone()
			f.base = &posted
		}
		f.line, f.ordered, f.valid = f.facts.flight(true), o.ordered, true
	}
	f.changes.setFlight(o.changes.newest.Load(), o.changes.InFlight())
	return fork
}

// ForkWithout returns the node as it will be after all pods in flight are admitted, the given pods
// are gone, and a report shows this. The search for pods to evict uses ForkWithout. ForkWithout
// starts from the likeliest state, and assumes that no other pod ends. ForkWithout returns false if
// too much is uncertain: the next report may then show room without an eviction.
func (n *Node) ForkWithout(uids ...string) (*Node, bool) {
	o := n.lock()
	defer n.mu.Unlock()
	if o.facts.report == nil {
		return nil, false
	}
	away := append(slices.Clone(uids), o.facts.pods.departed()...)
	w := o.supposing(away, true)
	w.without(away)
	if w.uncertain() || len(w.all) == 0 || len(o.facts.pods.afloat()) > 0 {
		return nil, false
	}
	f := facts{begun: true, report: o.facts.report.as(w.all[0].state.Clone())}
	for _, uid := range f.report.order { // otherwise each pod could end at any moment (eventsOfReported)
		f.pods.become(&pod{uid: uid}, reported)
	}
	if !o.facts.decides() { // if Berth decides, the state already has these pods
		f.holdings = o.facts.holdings.fork()
	}
	fork := newNode(new(ChangeCounter), n.stateIDs, f)
	fork.outlook.changes.setFlight(beforeAll, 0)
	return fork, true
}

// The method as returns a copy of the report in which the given state of the same node replaces the
// reported state.
func (r *Report) as(state *placement.State) *Report {
	out := &Report{Sequence: r.Sequence, Model: r.Model, Amounts: r.Amounts, Unsure: r.Unsure, state: state, bare: r.bare, pinsMemory: r.pinsMemory, pods: map[string]listing{}}
	snap := state.Snapshot()
	for _, p := range snap.Pods {
		out.pods[p.UID] = listing{holds: holds(&p), alloc: p}
		out.order = append(out.order, p.UID)
	}
	return out
}

// fork copies the facts. Both copies share the report, which never changes.
func (f *facts) fork() facts {
	c := *f
	c.pods, c.holdings = f.pods.fork(), f.holdings.fork()
	return c
}

func (l *lives) fork() lives {
	copies := make([]pod, 0, len(l.byUID))
	out := lives{byUID: make(map[string]*pod, len(l.byUID)), turn: l.turn}
	for _, uid := range slices.Sorted(maps.Keys(l.byUID)) {
		copies = append(copies, *l.byUID[uid])
		out.byUID[uid] = &copies[len(copies)-1]
	}
	for _, p := range l.posted {
		out.posted = append(out.posted, out.byUID[p.uid])
	}
	for _, p := range l.reserved {
		out.reserved = append(out.reserved, out.byUID[p.uid])
	}
	return out
}

// Holds reports whether the pod is reserved and not yet posted.
func (v View) Holds(uid string) bool {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	p := o.facts.pods.byUID[uid]
	return p != nil && p.stage == reserved
}
