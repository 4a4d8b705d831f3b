package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Trial is a question of the form "what if": without some pods of the node, with some others. The
// zero value changes nothing. A Trial changes no Node.
type Trial struct {
	// Without lists pods to be taken away. With any, those are away too that the API no longer has:
	// the question is who else would have to go, and their kubelet lets go of them by itself.
	Without []string
	// With lists requests to be admitted before the one that is asked about, in order.
	With []*placement.Request
}

// IsZero says whether the trial changes nothing.
func (t *Trial) IsZero() bool { return t == nil || len(t.Without) == 0 && len(t.With) == 0 }

// suppose answers under the trial's assumptions. The requests of With come first: what becomes free
// is theirs, and the states in which they have their place are the ones that count. Where such a
// state may yet come and would admit the candidate, or where the candidate alone keeps off for
// them, the answer is Waiting.
func (n *Node) suppose(t *Trial, c *Candidate) Answer {
	if n.report == nil {
		return Answer{}
	}
	if n.wave() > 0 && !inert(n.report.Model, c.Request) {
		return waiting(InWaves)
	}
	away := t.Without
	if len(away) > 0 {
		away = append(slices.Clip(away), n.departed()...)
	}
	w := n.supposing(away, true)
	w.without(away)
	after := w.clone()
	after.keepWith(t.With)
	if len(after.all) == 0 && !after.uncertain() {
		return w.behind(c.Request)
	}
	a := n.asFarAsKnown(after.ask(c.Request))
	if len(after.all) < len(w.all) && a.Outcome == Admitted {
		return waiting(AfterOthers)
	}
	return n.besideHoldings(a, c.Request, "", &after)
}
