package ledger

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Fork returns an account of its own that goes on from this one: what is reserved there is reserved
// there alone. A plan tries there what it is to reserve here, so that both give the same answers.
// Forks are short-lived: no report and no pod is heard of there.
func (n *Node) Fork() *Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := newNode(new(ChangeCounter), n.stateIDs, n.facts.fork())
	f.forked = true
	if n.report != nil {
		full := n.afterReserved()
		n.first.shared, full.shared = true, true
		all := full.clone()
		f.first, f.full = n.first.clone(), &all
		if n.base != nil {
			n.base.shared = true
			posted := n.base.clone()
			f.base = &posted
		}
		f.line, f.ordered, f.valid = f.flight(true), n.ordered, true
	}
	f.horizon.set(n.newest, n.changes.InFlight())
	return f
}

// ForkWithout returns an account that begins where this one will be when everything in flight has
// been admitted, some pods have gone, and a report tells so. It is for the question who would have
// to be evicted. Of the states that are possible it is the likeliest: nobody else ends meanwhile.
// It returns false where too much is open: a report will tell, and costs nobody anything.
func (n *Node) ForkWithout(uids ...string) (*Node, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return nil, false
	}
	away := append(slices.Clone(uids), n.departed()...)
	w := n.supposing(away, true)
	w.without(away)
	if w.uncertain() || len(w.all) == 0 || len(n.afloat()) > 0 {
		return nil, false
	}
	f := newNode(new(ChangeCounter), n.stateIDs, facts{begun: true, report: n.report.as(w.all[0].state.Clone())})
	for _, uid := range f.report.order { // whom nobody knows might end at any moment
		f.become(&pod{uid: uid}, reported)
	}
	if !n.decides() { // else they are in the state
		f.holdings = n.holdings.fork()
	}
	f.horizon.set(beforeAll, 0)
	return f, true
}

// as is a report with another state of the same node.
func (r *Report) as(state *placement.State) *Report {
	out := &Report{Sequence: r.Sequence, Model: r.Model, Amounts: r.Amounts, Unsure: r.Unsure, state: state, bare: r.bare, pinsMemory: r.pinsMemory, pods: map[string]listing{}}
	snap := state.Snapshot()
	for _, p := range snap.Pods {
		out.pods[p.UID] = listing{fate: r.pods[p.UID].fate, holds: holds(&p), alloc: p}
		out.order = append(out.order, p.UID)
	}
	return out
}

// fork copies the facts. What is of a report never changes.
func (f *facts) fork() facts {
	c := *f
	c.lives, c.holdings = f.lives.fork(), f.holdings.fork()
	return c
}

// fork copies the pods.
func (l *lives) fork() lives {
	copies := make([]pod, 0, len(l.pods))
	out := lives{pods: make(map[string]*pod, len(l.pods)), turn: l.turn}
	for _, uid := range slices.Sorted(maps.Keys(l.pods)) {
		copies = append(copies, *l.pods[uid])
		out.pods[uid] = &copies[len(copies)-1]
	}
	for _, p := range l.posted {
		out.posted = append(out.posted, out.pods[p.uid])
	}
	for _, p := range l.reserved {
		out.reserved = append(out.reserved, out.pods[p.uid])
	}
	return out
}

// Holds reports whether Reserve has taken the pod in, and its Binding was not posted.
func (n *Node) Holds(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	return p != nil && p.stage == reserved
}
