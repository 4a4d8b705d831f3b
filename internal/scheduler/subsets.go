package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
)

// Bounds of the search for victims whose removal helps where the removal of all does not.
const (
	// maxVictims is the most pods on a node whose sets the search forms.
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
// end with such a set: it is left when every other pod is back. The search looks at all sets,
// whatever else is gone: if it overlooked one, a pod might be evicted for nothing.
//
// For the same reason a set counts only where the node has the amounts, too, when the others are
// back: else NodeResourcesFit has more pods evicted than the set, without all of which the node may
// refuse. What other plugins want to be gone (ports, affinity to pods) is not foreseen.
func (c *cycle) askWithoutSome(n *nodes.Node, info fwk.NodeInfo) ledger.Answer {
	t := c.trials[n.Name()]
	a := c.askUnder(n, &t)
	if a.Outcome != ledger.Refused || len(t.Without) < 2 || len(t.Without) > maxVictims {
		return a
	}
	if r := n.Account().View().Report(); r == nil || r.Model.Monotone(c.query.Candidate.Request) {
		return a
	}
	search := victims{cycle: c, node: n, info: info, all: t.Without}
	for size := 1; size <= min(maxChosen, len(t.Without)-1); size++ {
		if found, ok := search.without(&ledger.Trial{With: t.With}, 0, size); ok {
			return found
		}
	}
	return a
}

// victims is a search for pods whose eviction makes room.
type victims struct {
	*cycle
	node *nodes.Node
	info fwk.NodeInfo
	// all are the ones that may go, by UID; info is of the node without all of them.
	all []string
}

// without asks for every set of that many more pods, from the given one on, until the node admits.
func (v *victims) without(t *ledger.Trial, from, size int) (ledger.Answer, bool) {
	if size == 0 {
		if !v.enough(t.Without) {
			return ledger.Answer{}, false
		}
		a := v.askUnder(v.node, t)
		return a, a.OK()
	}
	for i, uid := range v.all[from:] {
		with := ledger.Trial{With: t.With, Without: append(slices.Clip(t.Without), uid)}
		if a, ok := v.without(&with, from+i+1, size-1); ok {
			return a, true
		}
	}
	return ledger.Answer{}, false
}

// enough says whether the node has what the pod asks for in all, once only these are gone.
func (v *victims) enough(gone []string) bool {
	asked := maps.Clone(v.amounts)
	for _, uid := range v.all {
		if pod := v.removed[uid]; pod != nil && !slices.Contains(gone, uid) {
			for name, amount := range wire.ReadAmounts(pod) {
				asked[name] += amount
			}
		}
	}
	for name, amount := range asked {
		if amount > gang.FreeOf(v.info, corev1.ResourceName(name)) {
			return false
		}
	}
	return true
}
