package whatif

import (
	"context"
	"fmt"
	"maps"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
)

// Need is the result of Node.Need: the number of identical nodes that a load needs.
type Need struct {
	suppose.Needs
	// Never lists the pods that do not fit even without the rest of the load. They are not counted
	// in Needs.
	Never []NeverFits `json:"neverFits,omitempty"`
}

// NeverFits are pods of one template that do not fit even on a node without the rest of the load,
// with the reason.
type NeverFits struct {
	Name    string   `json:"name"`
	Pods    int      `json:"pods"`
	Refusal *Refused `json:"refusal"`
}

const maxNeeded = 100_000

// Need returns the number of nodes like n, with the same pods as n, that the load needs. It returns
// an error if a pod is invalid, if there are too many pods, or if ctx has ended.
func (n *Node) Need(ctx context.Context, load []query.Wanted) (out Need, err error) {
	asks, err := n.asksOf(load)
	if err != nil {
		return out, err
	}
	all := make([]suppose.Alike, len(load))
	for i := range load {
		all[i] = suppose.Alike{Asks: asks[i].amounts, Ports: wire.PortsOf(load[i].Pod), Pods: load[i].Replicas}
		if refusal := n.bare().admit(&asks[i]).Refusal; refusal != nil {
			out.Never = append(out.Never, NeverFits{load[i].Pod.Name, load[i].Replicas, refusal})
			all[i].Pods = 0
		}
	}
	out.Needs = suppose.NeedsOf(all, n.bare, func(on *Node, kind, i int) bool {
		if ctx.Err() != nil { // Need returns an error, so any answer is good
			return true
		}
		one := asks[kind]
		one.request.UID = fmt.Sprintf("%s/copy-%d", one.request.UID, i)
		return on.admit(&one).Admitted
	}, n.counted)
	return out, ctx.Err()
}

// asksOf reads the pods of a load. It returns an error if there are too many.
func (n *Node) asksOf(load []query.Wanted) (asks []ask, err error) {
	asks, pods := make([]ask, len(load)), 0
	for i := range load {
		if asks[i], err = read(load[i].Pod); err != nil {
			return nil, err
		}
		if pods += load[i].Replicas; load[i].Replicas > maxNeeded || pods > maxNeeded {
			return nil, fmt.Errorf("load %s brings the total to %d pods: want at most %d", load[i].Pod.Name, pods, maxNeeded)
		}
		n.doubts(&asks[i])
	}
	return asks, nil
}

// bare returns a copy of n for a trial, without names for a drawing.
func (n *Node) bare() *Node {
	other := *n
	other.state, other.totals, other.tenants = n.state.Clone(), n.totals.Clone(), nil
	return &other
}

// counted returns a node like n, but without pods, that counts only amounts, including the number
// of devices.
func (n *Node) counted() *amounts.Node {
	all := maps.Clone(n.allocatable)
	for _, pool := range n.spec.Pools {
		all[pool.Resource] = int64(len(pool.Devices))
	}
	return amounts.NewNode(all, n.untold...)
}
