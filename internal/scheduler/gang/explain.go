package gang

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// maxReasons is the maximum number of different reasons in an explanation. maxAsked is the maximum
// number of nodes that are asked for their reasons.
const (
	maxReasons = 4
	maxAsked   = 64
)

// explain describes which of the minResources is short. If none is short, it describes how many
// members fit, and why the nodes refuse the first member without a node.
func (j *job) explain(r *result) string {
	switch {
	case r.Short != nil:
		return r.Short.String()
	case r.Lacking < 0:
		return r.Counted()
	}
	return r.Counted() + "; pod " + j.Pods[r.Lacking].Name + " lacks a node: " + r.trial.why(r)
}

// why describes why nodes refuse the first member without a node. The most frequent reason comes
// first.
func (t *trial) why(r *result) string {
	member := &t.job.gang.Members[r.Lacking]
	k := t.kinds[member.Kind]
	taken := map[int]int{}
	for _, at := range r.Places {
		taken[at.Node]++
	}
	wishes := t.job.gang.Wishes()
	count, asked := map[string]int{}, 0
	for i := range t.infos {
		refused := t.refusal(k, i)
		switch on := r.Nodes.Known(i); {
		case r.Tangled[i]:
			count[tangled]++
		case on != nil && on.Pins(&member.Pod) && asked < maxAsked:
			asked++
			switch refusal, ok := on.Account().View().Explain(member.Candidate.Request); {
			case ok && refusal.Reason == placement.Admitted && r.Waits[i] == ledger.WaitsForNothing && refused != nil: // even without the other members
				count[refused.Message()]++
			case ok && refusal.Reason == placement.Admitted && wishes:
				count["has room, but the pods might not get the NUMA nodes that gang-same-numa-node or gang-other-numa-node requests"]++
			case ok && refusal.Reason != placement.Admitted:
				count[refusal.String()]++
			case r.Waits[i] != ledger.WaitsForNothing:
				count["waits for a report: "+r.Waits[i].Text()]++
			default:
				count["has no room next to members of the gang"]++
			}
		case refused != nil:
			count[refused.Message()]++
		case taken[i] > 0:
			count["has no room next to members of the gang"]++
		default:
			count["was not asked"]++
		}
	}
	texts := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	out := make([]string, 0, maxReasons)
	for _, text := range texts[:min(len(texts), maxReasons)] {
		out = append(out, wire.Counted(count[text], "node")+": "+text)
	}
	return strings.Join(out, "; ")
}

// tangled is the text for a node on which members that were created in the same second are admitted
// only in some orders.
const tangled = "admits the pods only in some of the orders that its kubelet may use for pods created in the same second: " +
	"create pods of different kinds one second apart, or leave one more CPU free"
