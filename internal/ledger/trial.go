package ledger

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Trial is a question of the form "what if": without some pods of the node, with some others. The zero value changes
// nothing. A Trial changes no Node.
type Trial struct {
	// Without lists pods to be taken away. With any, those are away too that the API does not have any more: the question is who
	// else would have to go, and their kubelet lets go of them by itself.
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
	away := t.Without
	if len(away) > 0 {
		away = append(slices.Clip(away), n.departed()...)
	}
	w := n.supposing(away, true)
	w.without(away)
	if !w.with(t.With) {
		return waiting(cmp.Or(w.why, AfterOthers))
	}
	return w.ask(c.Request)
}

// departed returns the pods that have left the API and that the kubelet may still have.
func (n *Node) departed() []string {
	var list []string
	for uid, p := range n.pods {
		if p.gone && p.stage != afloatStage { // of one afloat it is only feared
			list = append(list, uid)
		}
	}
	return list
}

// without releases pods in every world.
func (w *worlds) without(uids []string) {
	if len(uids) == 0 || w.uncertain() {
		return
	}
	w.own()
	for i := range w.all {
		for _, uid := range uids {
			w.all[i].state.Release(uid)
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
