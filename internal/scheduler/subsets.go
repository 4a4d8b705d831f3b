package scheduler

import (
	"slices"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
)

// Bounds of the search for victims whose removal helps where the removal of all does not.
const (
	// maxVictims is of how many pods on a node sets are formed.
	maxVictims = 32
	// maxChosen is how many of them a set has.
	maxChosen = 2
)

// askWithoutSome asks under the cycle's assumptions, and takes an answer for the better one that
// the node gives without only some of the pods that are assumed to be gone.
//
// The framework's dry run removes all pods of lower priority, gives up unless the pod fits then,
// and brings back what it can. A kubelet may admit a pod on a fuller node alone
// (placement.Monotone). To say here that it fits if any set of these pods can go makes the dry run
// end with such a set: it is left when every other pod is back. All sets are gone through, whatever
// else is gone: were one overlooked, a pod might be evicted in vain.
func (c *cycle) askWithoutSome(n *nodes.Node) ledger.Answer {
	t := c.trials[n.Name()]
	a := c.askUnder(n, &t)
	if a.Outcome != ledger.Refused || len(t.Without) < 2 || len(t.Without) > maxVictims {
		return a
	}
	if r := n.Account().View().Report(); r == nil || r.Model.Monotone(c.query.Candidate.Request) {
		return a
	}
	some := ledger.Trial{With: t.With}
	for size := 1; size <= min(maxChosen, len(t.Without)-1); size++ {
		if found, ok := c.askWithout(n, &some, t.Without, size); ok {
			return found
		}
	}
	return a
}

// askWithout asks for every set of that many more pods to be without, until the node admits.
func (c *cycle) askWithout(n *nodes.Node, t *ledger.Trial, pods []string, size int) (ledger.Answer, bool) {
	if size == 0 {
		a := c.askUnder(n, t)
		return a, a.OK()
	}
	for i, uid := range pods {
		with := ledger.Trial{With: t.With, Without: append(slices.Clip(t.Without), uid)}
		if a, ok := c.askWithout(n, &with, pods[i+1:], size-1); ok {
			return a, true
		}
	}
	return ledger.Answer{}, false
}
