package simulate

import (
	"fmt"
	"strconv"

	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/placement"
)

// numa is a cluster of nodes with kubelets that pin pods to NUMA nodes. Amounts are kept beside, as
// the scheduler's own filters have them.
type numa struct {
	*amounts
	blind    bool
	kinds    []*numaKind // by node
	states   []*placement.State
	decision placement.Decision
	zones    []Zone
}

// NewNUMA returns a maker of empty nodes with the overlay. The error says which node no machine can
// be made of. The pods that are put there must be Whole.
func NewNUMA(nodes []trace.Node, o Overlay) (func([]trace.Node, bool) Cluster, error) {
	type amount struct {
		cpu, mib int64
		gpus     int
	}
	known, of := map[amount]*numaKind{}, make([]*numaKind, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		a := amount{n.MilliCPU, n.MiB, n.GPUs}
		if known[a] == nil {
			k, err := o.kindOf(n)
			if err != nil {
				return nil, err
			}
			k.id = byte(len(known))
			known[a] = k
		}
		if of[i] = known[a]; len(known) > 255 {
			return nil, fmt.Errorf("node %s: %d kinds of machines: want at most 255", n.Name, len(known))
		}
	}
	return func(nodes []trace.Node, blind bool) Cluster {
		c := &numa{amounts: newAmounts(nodes), blind: blind, kinds: of}
		for i, k := range of {
			c.nodes[i].cpu -= threads * trace.Thousandths
			c.nodes[i].mib -= reservedMiB
			c.states = append(c.states, k.empty.Clone())
		}
		return c
	}, nil
}

func (c *numa) AppendKey(b []byte, node int) []byte {
	b = c.amounts.AppendKey(b, node)
	if c.blind {
		return b
	}
	return c.states[node].AppendStateKey(append(b, c.kinds[node].id))
}

func (c *numa) Look(node int, s *Shape, l *Look) bool {
	if !c.amounts.Look(node, s, l) {
		return false
	}
	if c.blind {
		return true
	}
	k, state := c.kinds[node], c.states[node]
	v := placement.Admit(state, s.ask)
	if !v.OK() {
		return false
	}
	l.Machine, l.Model, l.State, l.Verdict = k.machine, k.model, state, v
	c.zones = c.zones[:0]
	for i := range k.machine.NUMANodes {
		n := &k.machine.NUMANodes[i]
		c.zones = append(c.zones, Zone{FreeCPU: state.FreeCPUsOn(n), AllCPU: n.CPUs.Len(), Mine: v.NUMA.Has(n.ID)})
	}
	for gpu, at := range k.gpuAt {
		if c.zones[at].AllGPU++; l.FreeGPU[gpu] > 0 {
			c.zones[at].FreeGPU++
		}
	}
	l.Zones = c.zones
	return true
}

// Lacks asks the engine where the amounts are there, also for a scheduler that does not.
func (c *numa) Lacks(node int, s *Shape) Lack {
	lack := c.amounts.Lacks(node, s)
	if lack != LacksNothing {
		return lack
	}
	if v := placement.Admit(c.states[node], s.ask); !v.OK() {
		return LacksNUMANodes
	}
	return LacksNothing
}

// Put lets the node's kubelet decide.
func (c *numa) Put(node int, pod int32, s *Shape, _ int) Outcome {
	r := *s.ask
	r.UID = uid(pod)
	v := placement.Decide(c.states[node], &r, &c.decision)
	if !v.OK() {
		return Outcome{Refused: true}
	}
	c.states[node].Commit(&r, &c.decision)
	bits := uint64(0)
	for i := range c.decision.Containers[0].Devices {
		for _, id := range c.decision.Containers[0].Devices[i].IDs {
			gpu, _ := strconv.Atoi(id)
			bits |= 1 << gpu
		}
	}
	c.hold(node, pod, s, bits)
	return Outcome{NUMANodes: v.NUMA.Len(), Aligned: v.NUMA.Len() <= c.kinds[node].fewest(s)}
}

func (c *numa) Take(node int, pod int32, s *Shape) {
	c.states[node].Release(uid(pod))
	c.amounts.Take(node, pod, s)
}

func uid(pod int32) string { return strconv.Itoa(int(pod)) }

// fewest is how many NUMA nodes of the empty machine the pod would lie on, with a kubelet that does
// its best.
func (k *numaKind) fewest(s *Shape) int {
	v := placement.Admit(k.empty, s.ask)
	return v.NUMA.Len()
}
