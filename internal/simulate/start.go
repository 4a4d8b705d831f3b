package simulate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// StartNode is a node with its running pods.
type StartNode struct {
	// Node has the node's name and its allocatable CPUs, memory and GPUs.
	trace.Node
	Machine *topology.Machine
	Model   *placement.Model
	// State has the resources that the kubelet has assigned to the pods in Pods and to all other
	// pods.
	State *placement.State
	// KeptCPU (thousandths) and KeptMiB are the requests of pods that are not in Pods. These pods
	// never end or move.
	KeptCPU, KeptMiB int64
	// Others are the node's other allocatable resources: huge pages, in bytes, and devices other
	// than GPUs. KeptOthers are the requests of the pods that are not in Pods.
	Others, KeptOthers map[string]int64
	Pods               []StartPod
}

// StartPod is a pod that already runs on a node.
type StartPod struct {
	// UID is the pod's UID in the node's State.
	UID     string
	Request placement.Request
	// MilliCPU, MiB and GPUs are the requests of the whole pod.
	MilliCPU, MiB int64
	GPUs          int
	Others        map[string]int64 // huge pages, in bytes, and other devices
	// Left is the remaining running time in seconds; 0 means that the pod outlives the simulation.
	Left int64
	// Stays means that a strategy with Defrag must not move the pod.
	Stays bool
}

// Start is a cluster with its running pods at the beginning of a simulation. Runs do not change it.
type Start struct {
	nodes []StartNode
	list  []trace.Node
	kinds []*numaKind
	ids   []map[string]int
	pods  []standing
}

type standing struct {
	*StartPod
	node    int32
	outcome Outcome
}

// NewStart validates nodes and returns a Start with them. The error names a node that cannot be
// simulated.
func NewStart(nodes []StartNode) (*Start, error) {
	s := &Start{nodes: nodes}
	known := map[string]*numaKind{}
	for i := range nodes {
		n := &nodes[i]
		pools := n.State.Snapshot().Devices
		gpus, ids, err := n.gpus(pools)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprintf("%p %s", n.Model, poolsKey(pools))
		k := known[key]
		if k == nil {
			k = &numaKind{machine: n.Machine, model: n.Model, empty: n.Model.NewState(), gpuAt: gpus, id: len(known)}
			for _, pool := range pools {
				k.empty.SetPool(pool)
			}
			known[key] = k
		}
		s.list, s.kinds, s.ids = append(s.list, n.Node), append(s.kinds, k), append(s.ids, ids)
		for j := range n.Pods {
			p := standing{StartPod: &n.Pods[j], node: int32(i)}
			on := n.State.Holding(p.UID)
			v := placement.Admit(k.empty, &p.Request)
			p.outcome = Outcome{NUMANodes: on.Len(), Aligned: on.Len() <= v.NUMA.Len()}
			s.pods = append(s.pods, p)
		}
	}
	return s, nil
}

// poolsKey returns the same key for pools whose devices differ only in their ids and addresses.
func poolsKey(pools []placement.DevicePool) string {
	pools = slices.Clone(pools)
	for i := range pools {
		pools[i].Devices = slices.Clone(pools[i].Devices)
		for k := range pools[i].Devices {
			pools[i].Devices[k].ID, pools[i].Devices[k].Address = "", ""
		}
	}
	return fmt.Sprintf("%+v", pools)
}

// gpus returns the healthy GPUs. at[i] is the index of the NUMA node of GPU i in the machine, or -1
// if the GPU has none. `ids` maps device ids to the indices i.
func (n *StartNode) gpus(pools []placement.DevicePool) (at []int, ids map[string]int, err error) {
	ids = map[string]int{}
	for _, pool := range pools {
		if pool.Resource != gpuResource {
			continue
		}
		for i := range pool.Devices {
			d := &pool.Devices[i]
			if d.Unhealthy {
				continue
			}
			ids[d.ID] = len(at)
			at = append(at, slices.IndexFunc(n.Machine.NUMANodes, func(o topology.NUMANode) bool { return d.HasTopology && d.NUMA.Has(o.ID) }))
		}
	}
	if len(at) > trace.MaxGPUs {
		return nil, nil, fmt.Errorf("node %s: %d healthy devices of %s: want at most %d", n.Name, len(at), gpuResource, trace.MaxGPUs)
	}
	return at, ids, nil
}

// Others returns the names of the nodes' resources other than CPUs, memory and GPUs.
func (s *Start) Others() []string {
	names := map[string]bool{}
	if s == nil {
		return nil
	}
	for i := range s.nodes {
		for name := range s.nodes[i].Others {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Nodes returns the nodes in the format of a trace.
func (s *Start) Nodes() []trace.Node { return slices.Clone(s.list) }

// Ground creates the Cluster for one run, with the running pods. nodes must be the result of Nodes.
func (s *Start) Ground(nodes []trace.Node, blind bool) Cluster {
	c := &numa{amounts: newAmounts(nodes), blind: blind, kinds: s.kinds, ids: s.ids}
	for i := range s.nodes {
		n, here := &s.nodes[i], &c.nodes[i]
		here.cpu, here.mib = here.cpu-n.KeptCPU, here.mib-n.KeptMiB
		here.others = map[string]int64{}
		for name, has := range n.Others {
			here.others[name] = has - n.KeptOthers[name]
		}
		here.gpus = here.gpus[:0]
		for range s.kinds[i].gpuAt {
			here.gpus = append(here.gpus, trace.Thousandths)
		}
		state := n.State.Clone()
		c.states = append(c.states, state)
		snap := state.Snapshot()
		for k := range snap.Pods {
			for gpu := range c.gpusOf(i, snap.Pods[k].Containers) {
				here.gpus[gpu] = 0
			}
		}
	}
	c.wanted = newWanted(s.kinds, nodes)
	for i := range s.pods {
		p := &s.pods[i]
		c.stood = append(c.stood, p.UID)
		held, _ := c.states[p.node].Pod(p.UID)
		bits := uint64(0)
		for gpu := range c.gpusOf(int(p.node), held.Containers) {
			bits |= 1 << gpu
			c.nodes[p.node].gpus[gpu] = trace.Thousandths // c.hold takes it again
		}
		shape := p.shape()
		c.hold(int(p.node), int32(i), shape, bits)
		c.wanted.add(shape, int64(shape.GPUs))
	}
	return c
}

// shape returns the pod's request as a Shape. A pod that replaces this pod after a move has the
// same Shape.
func (p *StartPod) shape() *Shape {
	ask := p.Request
	ask.UID = ""
	s := &Shape{MilliCPU: p.MilliCPU, MiB: p.MiB, GPUs: p.GPUs, Others: p.Others, ask: &p.Request, key: fmt.Sprintf("%d %d %d %v %+v", p.MilliCPU, p.MiB, p.GPUs, p.Others, ask)}
	if p.GPUs > 0 {
		s.MilliGPU = trace.Thousandths
	}
	return s
}

// shapes appends the shapes of the Start's pods to the list all. The shape of s.pods[i] is
// out[of[i]].
func (s *Start) shapes(all []Shape) (out []Shape, of []int32) {
	out = slices.Clip(all)
	if s == nil {
		return out, nil
	}
	known := map[string]int32{}
	for i := range s.pods {
		shape := s.pods[i].shape()
		id, ok := known[shape.key]
		if !ok {
			id = int32(len(out))
			known[shape.key] = id
			out = append(out, *shape)
		}
		of = append(of, id)
	}
	return out, of
}

func (s *Start) count() int {
	if s == nil {
		return 0
	}
	return len(s.pods)
}

func (s *Start) served() (f Figures) {
	for i := range s.count() {
		f.arrived(s.pods[i].shape(), true, s.pods[i].outcome)
	}
	return f
}
