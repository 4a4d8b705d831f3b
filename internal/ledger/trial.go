package ledger

import (
	"cmp"

	"github.com/berth-dev/berth/placement"
)

// Trial is a question of the form "what if": without some pods of the node, with some others. The zero value changes
// nothing. A Trial changes no Node.
type Trial struct {
	// Without lists pods to be taken away.
	Without []string
	// With lists requests to be admitted before the one that is asked about, in order.
	With []*placement.Request
}

// IsZero says whether the trial changes nothing.
func (t *Trial) IsZero() bool { return t == nil || len(t.Without) == 0 && len(t.With) == 0 }

// Try answers as Admit does, under the trial's assumptions. Where a request of With is not admitted, the answer is
// Waiting: its place has to become free first.
func (n *Node) Try(t *Trial, c *Candidate) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return Answer{}
	}
	n.compute()
	n.setApart(t.Without)
	w := n.full.clone()
	w.without(t.Without)
	if !w.with(t.With) {
		return waiting(cmp.Or(w.why, AfterOthers))
	}
	return w.ask(c.Request)
}

// without releases pods in every world.
func (w *worlds) without(uids []string) {
	if len(uids) == 0 || w.uncertain() {
		return
	}
	w.own()
	for i := range w.all {
		for _, uid := range uids {
			w.all[i].state.Release(w.model, uid)
		}
	}
}

// with admits requests in every world, and says whether all were admitted in all.
func (w *worlds) with(requests []*placement.Request) bool {
	if len(requests) == 0 {
		return true
	}
	w.own()
	for _, r := range requests {
		for i := 0; i < len(w.all); i++ {
			if !w.commit(&w.all[i], r) {
				return false
			}
		}
	}
	return !w.uncertain()
}
