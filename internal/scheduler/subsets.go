package scheduler

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
)

// Bounds of the search for victims whose removal helps if the removal of all does not.
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
// For the same reason a set counts only if the node has the amounts, too, when the others are back:
// else NodeResourcesFit has more pods evicted than the set, without all of which the node may
// refuse. What other plugins want to be gone (ports, affinity to pods) is not foreseen.
func (c *cycle) askWithoutSome(n *nodes.Node, info fwk.NodeInfo) ledger.Answer {
	on := c.assumed(n)
	a, t := on.AskUnder(&c.query.Candidate, &ledger.Trial{}), on.Trial()
	if a.Outcome != ledger.Refused || len(t.Without) < 2 || len(t.Without) > maxVictims {
		return a
	}
	if r := n.Account().View().Report(); r == nil || r.Model.Monotone(c.query.Candidate.Request) {
		return a
	}
	search := c.victims(n, info, &t)
	for size := 1; size <= min(maxChosen, len(t.Without)-1); size++ {
		if found, ok := search.without(0, size); ok {
			return found
		}
	}
	return a
}

// victims is a search for pods whose eviction makes room.
type victims struct {
	// on is the node with all of them; all are the pods that may be removed.
	on  suppose.Node
	all []*suppose.Pod
	// asking is the pod that needs room, with are pods that come before it.
	asking suppose.Pod
	with   ledger.Trial
}

// victims makes a search of what a dry run assumes: info is of the node without those who may go.
func (c *cycle) victims(n *nodes.Node, info fwk.NodeInfo, t *ledger.Trial) *victims {
	room := gang.RoomIn(info)
	v := &victims{asking: suppose.Pod{Candidate: &c.query.Candidate, Asks: c.dry.amounts}, with: ledger.Trial{With: t.With}}
	for _, uid := range t.Without {
		p := &suppose.Pod{UID: uid, Candidate: &ledger.Candidate{}}
		if pod := c.dry.removed[uid]; pod != nil {
			p.Asks = wire.ReadAmounts(pod)
			room.Add(p.Asks)
		}
		v.all = append(v.all, p)
	}
	v.on = suppose.On(n.Account(), room)
	return v
}

// without asks for every set of that many more pods, from the given one on, until the node admits.
func (v *victims) without(from, size int) (a ledger.Answer, ok bool) {
	if size == 0 {
		if !v.on.Enough(&v.asking) {
			return ledger.Answer{}, false
		}
		a = v.on.AskUnder(v.asking.Candidate, &v.with)
		return a, a.OK()
	}
	for i, p := range v.all[from:] {
		v.on.Take(p)
		a, ok = v.without(from+i+1, size-1)
		v.on.Put(p)
		if ok {
			return a, true
		}
	}
	return ledger.Answer{}, false
}
