package scheduler

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
)

// The limits of the search for a set of victims whose removal helps although the removal of all
// pods does not.
const (
	// maxVictims is the maximum number of removable pods. If there are more, there is no search.
	maxVictims = 32
	// maxChosen is the maximum size of a set.
	maxChosen = 2
)

// askWithoutSome asks the node with the changes that the cycle assumes. If the node refuses the
// pod, but would admit it after the removal of only some of the pods, the result is this admission.
//
// The framework's dry run removes all pods of lower priority. If the pod does not fit then, the dry
// run gives up on the node; otherwise it puts back as many pods as possible. But a kubelet may
// refuse a pod on an empty node and admit it on the same node with more pods (placement.Monotone).
// So this function reports that the pod fits if the removal of a small set of these pods makes
// room. The dry run then ends with such a set, after it has added all other pods again. The search
// tries all sets of up to maxChosen pods, because an overlooked set could mean an unnecessary
// eviction.
//
// The search accepts a set only if NodeResourcesFit would also accept the node after the removal of
// only this set. Otherwise the dry run would also evict other pods until NodeResourcesFit accepts
// the node, and the kubelet might refuse the pod after these evictions. The search ignores other
// plugins, such as NodePorts and InterPodAffinity.
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

// victims is a search for a set of pods whose eviction makes room.
type victims struct {
	// on is the node with all of its pods. all has the pods that may be removed.
	on  suppose.Node
	all []*suppose.Pod
	// asking is the pod that needs room. with has the pods that the trial assumes on the node.
	asking suppose.Pod
	with   ledger.Trial
}

// victims creates a search from the assumptions of a dry run. The parameter info is the node
// without the removable pods.
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

// without tries the sets of pods from all[from:] that have the given size. It ends when the node
// admits the asking pod after the removal of such a set.
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
