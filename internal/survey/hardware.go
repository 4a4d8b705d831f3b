package survey

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// Hardware is the machine in the report of a node's agent, with its devices according to DRA
// drivers.
type Hardware struct {
	Machine *topology.Machine
	// Notes describe ResourceSlices that contradict the machine, and data that could not be read.
	Notes []string
}

// maxContradictions is the maximum number of contradictions that are named.
const maxContradictions = 20

// Hardware compares the devices of ResourceSlices with the machine of a node.
func (c *Cluster) Hardware(ctx context.Context, name string) (*Hardware, error) {
	s, err := c.Survey(ctx, name)
	if err != nil {
		return nil, err
	}
	n := s.nodes[name]
	switch {
	case n == nil:
		return nil, c.noNode(s, name)
	case n.knownMachine() == nil && n.trouble != nil:
		return nil, fmt.Errorf("node %s: %s", name, n.trouble.Message)
	case n.knownMachine() == nil:
		return nil, fmt.Errorf("node %s: its report has only amounts: want a report of berth-agent", name)
	}
	h, err := c.from.HandedOut(ctx, c.Namespace)
	if err != nil {
		return nil, err
	}
	a := newAllocator(h, &c.Terms)
	inventory := claims.Read(name, n.knownMachine(), a.slicesOf(n.object, name), &a.sources)
	out := &Hardware{Machine: n.knownMachine(), Notes: append(s.Notes, h.Notes...)}
	first, count := inventory.Contradictions(maxContradictions)
	for _, one := range first {
		out.Notes = append(out.Notes, one.String())
	}
	if more := count - len(first); more > 0 {
		out.Notes = append(out.Notes, wire.Counted(more, "other device")+" with a contradiction")
	}
	return out, nil
}
