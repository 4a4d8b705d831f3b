package simulate

import (
	"encoding/binary"
	"iter"
	"strconv"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// numa is a cluster whose kubelets pin pods to NUMA nodes. It also counts amounts, as
// kube-scheduler's filters do.
type numa struct {
	*amounts
	blind    bool
	kinds    []*numaKind      // by node
	ids      []map[string]int // by node: the index of each GPU, by its device id
	states   []*placement.State
	stood    []string // by the pod's number: the UIDs of the pods that run at the start
	decision placement.Decision
	zones    []Zone
	wanted   wanted
}

// numaKind has the data that nodes share if they have the same Model, and devices that differ only
// in their ids and addresses.
type numaKind struct {
	machine *topology.Machine
	model   *placement.Model
	empty   *placement.State
	gpuAt   []int // by GPU: the index of its NUMA node in the machine, or -1
	id      int
}

func (c *numa) AppendKey(b []byte, node int) []byte {
	b = c.amounts.AppendKey(b, node)
	if c.blind {
		return b
	}
	return c.states[node].AppendStateKey(binary.AppendUvarint(b, uint64(c.kinds[node].id)))
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
		if at < 0 {
			continue
		}
		if c.zones[at].AllGPU++; l.FreeGPU[gpu] > 0 {
			c.zones[at].FreeGPU++
		}
	}
	l.Zones, l.Demand = c.zones, c.wanted.level(node)
	return true
}

// Lacks compares the amounts first. If the node has enough of everything, Lacks asks the placement
// engine, even for a strategy that is Blind.
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

// Put asks the node's kubelet to admit the pod.
func (c *numa) Put(node int, pod int32, s *Shape, _ int) Outcome {
	r := *s.ask.Settled()
	r.UID = c.uid(pod)
	v := placement.Decide(c.states[node], &r, &c.decision)
	if !v.OK() {
		return Outcome{Refused: true}
	}
	c.states[node].Commit(&r, &c.decision)
	bits, ids := uint64(0), c.ids[node]
	for i := range c.decision.Containers {
		for k := range c.decision.Containers[i].Devices {
			d := &c.decision.Containers[i].Devices[k]
			for _, id := range d.IDs {
				if gpu, ok := ids[id]; ok && d.Resource == gpuResource {
					bits |= 1 << gpu
				}
			}
		}
	}
	c.hold(node, pod, s, bits)
	c.wanted.add(s, int64(s.GPUs))
	return Outcome{NUMANodes: v.NUMA.Len(), Aligned: v.NUMA.Len() <= c.kinds[node].fewest(s)}
}

func (c *numa) Take(node int, pod int32, s *Shape) {
	c.states[node].Release(c.uid(pod))
	c.amounts.Take(node, pod, s)
	c.wanted.add(s, -int64(s.GPUs))
}

func (c *numa) Learn() bool { return !c.blind && c.wanted.learn() }

// Suppose returns a copy of the node, with a new ledger that has the state of the node's simulated
// kubelet.
func (c *numa) Suppose(node int) suppose.Node {
	snap := c.states[node].Snapshot()
	report, err := ledger.NewReport(1, c.kinds[node].model, &snap, nil)
	if err != nil {
		panic("the simulated state of a kubelet contradicts itself: " + err.Error())
	}
	account := new(ledger.Ledger).Open(nil)
	account.Accept(report)
	return suppose.On(account, c.room(node))
}

func (c *numa) Name(pod int32) string { return c.uid(pod) }

// uid returns the UID of a pod in the states of kubelets. If the pod does not run at the start,
// this UID cannot equal a UID of a real cluster, because real UIDs contain no slash.
func (c *numa) uid(pod int32) string {
	if int(pod) < len(c.stood) {
		return c.stood[pod]
	}
	return "/" + strconv.Itoa(int(pod))
}

// gpusOf yields the indices of the node's GPUs that are assigned to the containers.
func (c *numa) gpusOf(node int, containers []placement.ContainerAllocation) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range containers {
			for k := range containers[i].Devices {
				for _, id := range containers[i].Devices[k].IDs {
					if gpu, ok := c.ids[node][id]; ok && containers[i].Devices[k].Resource == gpuResource && !yield(gpu) {
						return
					}
				}
			}
		}
	}
}

// fewest returns the number of NUMA nodes that a pod of the shape gets on an empty node.
func (k *numaKind) fewest(s *Shape) int {
	v := placement.Admit(k.empty, s.ask)
	return v.NUMA.Len()
}
