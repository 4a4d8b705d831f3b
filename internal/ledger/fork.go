package ledger

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Fork returns an independent copy of the node. A plan reserves pods on a fork to learn the answers
// that the node would give. Forks are short-lived: they receive no reports and no changes of pods.
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

// ForkWithout returns the node as it will be after all pods in flight are admitted, the given pods
// are gone, and a report shows this. The search for pods to evict uses it. It starts from the
// likeliest state, and assumes that no other pod ends. It returns false if too much is uncertain:
// the next report may then show room without an eviction.
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
	for _, uid := range f.report.order { // pods that the API has not shown could end at any moment
		f.become(&pod{uid: uid}, reported)
	}
	if !n.decides() { // if Berth decides, the state already has these pods
		f.holdings = n.holdings.fork()
	}
	f.horizon.set(beforeAll, 0)
	return f, true
}

// as returns a copy of the report with another state of the same node.
func (r *Report) as(state *placement.State) *Report {
	out := &Report{Sequence: r.Sequence, Model: r.Model, Amounts: r.Amounts, Unsure: r.Unsure, state: state, bare: r.bare, pinsMemory: r.pinsMemory, pods: map[string]listing{}}
	snap := state.Snapshot()
	for _, p := range snap.Pods {
		out.pods[p.UID] = listing{fate: r.pods[p.UID].fate, holds: holds(&p), alloc: p}
		out.order = append(out.order, p.UID)
	}
	return out
}

// fork copies the facts. The parts of a report never change.
func (f *facts) fork() facts {
	c := *f
	c.lives, c.holdings = f.lives.fork(), f.holdings.fork()
	return c
}

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

// Holds reports whether the pod is reserved and not yet posted.
func (n *Node) Holds(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	return p != nil && p.stage == reserved
}
