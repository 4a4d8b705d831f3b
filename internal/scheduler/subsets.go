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
	// maxVictims is the maximum number of pods on a node whose sets are searched.
	maxVictims = 32
	// maxChosen is the maximum size of a set.
	maxChosen = 2
)

// askWithoutSome asks under the cycle's assumptions. If the node gives a better answer without only
// some of the removed pods, it uses that answer.
//
// The framework's dry run removes all pods of lower priority, stops unless the pod then fits, and
// brings back as many as it can. A kubelet may admit a pod only on a fuller node
// (placement.Monotone). So this function reports that the pod fits if any set of these pods can go.
// The dry run then ends with such a set, when all other pods are back. The search tries all sets,
// because a pod might be evicted unnecessarily if it overlooked one.
//
// For the same reason a set counts only if the node also has the amounts when the others are back.
// Otherwise NodeResourcesFit would evict more pods than the set, and the node may refuse the pod
// without them. The requirements of other plugins (ports, affinity to pods) are not predicted.
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
	// on is the node with all pods; all are the pods that may be removed.
	on  suppose.Node
	all []*suppose.Pod
	// asking is the pod that needs room, with are pods that come before it.
	asking suppose.Pod
	with   ledger.Trial
}

// victims creates a search from the assumptions of a dry run. info is the node without the
// removable pods.
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

// without asks for every set of size more pods, beginning with the given one, until the node
// admits.
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
