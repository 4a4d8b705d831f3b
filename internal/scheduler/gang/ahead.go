package gang

import (
	"fmt"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// goAhead records whether surplus members of other groups wait for the group (Progress.GoesAhead),
// which they do for at most Options.Timeout. When the wait ends, goAhead wakes them. If the group
// has made them wait without success, groups of its namespace lose the right to do this to other
// namespaces for some time (admitter.spoil). The caller holds the lock.
func (gs *Groups) goAhead(g *group, ahead bool) {
	now := gs.book.Clock.Now()
	switch was := gs.book.ahead[g]; {
	case ahead && !was:
		if most := now.Add(gs.book.Timeout); most.Before(g.Ahead) {
			g.Ahead = most
		}
		gs.book.ahead[g] = true
		gs.book.callAt(g.Ahead, func() { gs.look(g) })
	case was && !ahead:
		delete(gs.book.ahead, g)
		if !g.Whole && !g.settled() && !g.Lacking {
			gs.admitter.spoil(g.key.Namespace)
		}
		gs.book.callAt(now, gs.book.stirred)
	}
}

// awaited returns the reason why a surplus member must wait for another group, or "". The caller
// holds the lock.
func (gs *Groups) awaited(g *group, m *member) string {
	var first *group
	for other := range gs.book.ahead {
		switch {
		case other == g || other.lowest(0) < corev1helpers.PodPriority(m.pod):
		case other.key.Namespace != g.key.Namespace && gs.book.Clock.Now().Before(gs.admitter.spoiled[other.key.Namespace]):
		case first == nil || other.key.String() < first.key.String():
			first = other
		}
	}
	if first == nil {
		return ""
	}
	return fmt.Sprintf("the pod is beyond the minimum of its gang, and waits for %s, which has nodes for %s", first.key, first.lacks(&first.done))
}
