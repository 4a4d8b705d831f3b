package ledger

import (
	"maps"
	"slices"
)

// Fork returns an account of its own that goes on from this one: what is reserved there is reserved
// there alone. A plan tries there what it is to reserve here, so that both give the same answers.
// Forks are short-lived: no report and no pod is heard of there.
func (n *Node) Fork() *Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report != nil {
		n.compute()
	}
	n.first.shared, n.base.shared, n.full.shared = true, true, true
	f := &Node{
		newest: n.newest, changes: new(ChangeCounter), report: n.report, begun: n.begun, stateIDs: n.stateIDs,
		lives: n.fork(), first: n.first.clone(), base: n.base.clone(), full: n.full.clone(), valid: n.valid,
	}
	f.changes.newest.Store(n.newest)
	return f
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

// Holds says whether Reserve has taken the pod in, and its Binding was not posted.
func (n *Node) Holds(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	return p != nil && p.stage == reserved
}
