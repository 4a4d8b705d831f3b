package query

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// Hardware is the machine in the report of a node's agent, compared with the devices that DRA
// drivers report.
type Hardware struct {
	Machine *topology.Machine
	// Notes describe ResourceSlices that contradict the machine, and data that could not be read.
	Notes []string
}

// maxContradictions is the maximum number of contradictions that are named.
const maxContradictions = 20

// HardwareOf compares the devices of ResourceSlices with the machine of a node.
func HardwareOf(ctx context.Context, c *survey.Cluster, name string) (*Hardware, error) {
	s, err := c.Survey(ctx, name)
	if err != nil {
		return nil, err
	}
	n := s.States[name]
	switch {
	case n == nil:
		return nil, c.NoNode(s, name)
	case knownMachine(n) == nil && n.Trouble != nil:
		return nil, fmt.Errorf("node %s: %s", name, n.Trouble.Message)
	case knownMachine(n) == nil:
		return nil, fmt.Errorf("node %s: its report has only amounts, and does not describe the machine: want a report of berth-agent", name)
	}
	h, err := c.From.HandedOut(ctx, c.Namespace)
	if err != nil {
		return nil, err
	}
	a := newAllocator(h, &c.Terms)
	inventory := claims.Read(name, knownMachine(n), a.slicesOf(n.Object, name), &a.sources)
	out := &Hardware{Machine: knownMachine(n), Notes: append(s.Notes, h.Notes...)}
	first, count := inventory.Contradictions(maxContradictions)
	for _, one := range first {
		out.Notes = append(out.Notes, one.String())
	}
	if more := count - len(first); more > 0 {
		out.Notes = append(out.Notes, wire.Counted(more, "other device")+" with a contradiction")
	}
	return out, nil
}
