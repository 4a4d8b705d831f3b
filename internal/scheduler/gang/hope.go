package gang

import (
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
)

// hope is a trial on which nodes that wait for a report take what they have amounts for: no report
// can show more. It implements plan.Field.
type hope struct {
	*trial
	// waits are the nodes that wait, for some kind or after some members.
	waits map[int]bool
}

var _ plan.Field = (*hope)(nil)

// hopes says whether the reports that nodes wait for could make the gang fit that did not.
func (r *result) hopes() bool {
	h := &hope{trial: r.trial, waits: r.waits()}
	if len(h.waits) == 0 {
		return false
	}
	if h.job.gang.Wishes() {
		return true // where members would sit on such a node is what is not known
	}
	p := plan.Make(&h.job.gang, h, h.budget)
	if p.Whole {
		for _, at := range slices.Backward(p.Places) {
			h.Take(at.Member, at.Node)
		}
	}
	return p.Whole
}

// waits are the nodes that wait for a report, as far as the plan or a filter says so.
func (r *result) waits() map[int]bool {
	waits := map[int]bool{}
	for node := range r.Waits {
		waits[node] = true
	}
	for _, k := range r.trial.kinds {
		for node, said := range k.refused {
			if said.Code() == fwk.Pending {
				waits[node] = true
			}
		}
	}
	return waits
}

// Nodes implements plan.Field: the ones that wait come last.
func (h *hope) Nodes(which int) []int {
	fit, k := h.trial.Nodes(which), h.kinds[which]
	for _, node := range slices.Sorted(maps.Keys(h.waits)) {
		if said := k.refused[node]; said != nil && said.Code() == fwk.Pending {
			fit = append(fit, node)
		}
	}
	return fit
}

// Node implements plan.Field: what a ledger says that waits is not known.
func (h *hope) Node(node int) suppose.Node {
	if h.waits[node] {
		return suppose.Node{}
	}
	return h.trial.Node(node)
}

// Admits implements plan.Field.
func (h *hope) Admits(member, node int) bool {
	if h.waits[node] {
		room := RoomIn(h.info(node))
		return !h.loners.mind(h.job.pods[member], h.info(node).Node()) && room.Free(amounts.Pods) > 0 && room.Has(Countable(h.profile.Handle, h.job.gang.Members[member].Asks, room))
	}
	return h.trial.Admits(member, node)
}

// Closed implements plan.Field.
func (h *hope) Closed(kind, node int) bool { return !h.waits[node] && h.trial.Closed(kind, node) }
