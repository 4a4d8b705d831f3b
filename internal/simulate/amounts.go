package simulate

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	count "github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/suppose"
)

// amounts is a cluster without NUMA nodes. As in kube-scheduler, a pod fits on a node if the node
// has the requested amounts.
type amounts struct {
	nodes []amountsNode
	// gpusOf has, by the pod's number, the bit set of the GPUs that the pod has on its node.
	gpusOf map[int32]uint64
}

type amountsNode struct {
	cpu, mib int64 // free
	// allCPU and allMiB are the allocatable amounts.
	allCPU, allMiB int64
	gpus           []int64          // the free thousandths of each GPU
	others         map[string]int64 // free; nil if the node has none
	kinds          [maxKinds]int32
	of             *trace.Node
}

// NewAmounts returns a Cluster of empty nodes without NUMA nodes. A pod can get a share of a GPU.
func NewAmounts(nodes []trace.Node) Cluster { return newAmounts(nodes) }

func newAmounts(nodes []trace.Node) *amounts {
	c := &amounts{gpusOf: map[int32]uint64{}}
	for i := range nodes {
		n := amountsNode{cpu: nodes[i].MilliCPU, mib: nodes[i].MiB, allCPU: nodes[i].MilliCPU, allMiB: nodes[i].MiB, of: &nodes[i]}
		for range nodes[i].GPUs {
			n.gpus = append(n.gpus, trace.Thousandths)
		}
		c.nodes = append(c.nodes, n)
	}
	return c
}

func (c *amounts) Size() int { return len(c.nodes) }

func (c *amounts) AppendKey(b []byte, node int) []byte {
	n := &c.nodes[node]
	b = binary.AppendVarint(binary.AppendVarint(b, n.of.MilliCPU), n.cpu)
	b = binary.AppendVarint(binary.AppendVarint(b, n.of.MiB), n.mib)
	for _, free := range n.gpus {
		b = binary.AppendVarint(b, free)
	}
	b = append(append(b, 0xff), n.of.GPUModel...)
	for _, name := range slices.Sorted(maps.Keys(n.others)) {
		b = binary.AppendVarint(append(append(b, 0xff), name...), n.others[name])
	}
	for kind, count := range n.kinds {
		if count > 0 {
			b = append(b, byte(kind))
		}
	}
	return b
}

func (c *amounts) Look(node int, s *Shape, l *Look) bool {
	n := &c.nodes[node]
	if c.Lacks(node, s) != LacksNothing {
		return false
	}
	*l = Look{Shape: s, FreeCPU: n.cpu, AllCPU: n.allCPU, FreeMiB: n.mib, AllMiB: n.allMiB, FreeGPU: n.gpus, GPUModel: n.of.GPUModel, Kinds: &n.kinds}
	return true
}

func (c *amounts) Lacks(node int, s *Shape) Lack {
	switch n := &c.nodes[node]; {
	case s.MilliCPU > n.cpu:
		return LacksCPUs
	case s.MiB > n.mib:
		return LacksMemory
	case s.GPUs > 0 && (!s.Takes(n.of.GPUModel) || room(n.gpus, s.MilliGPU) < s.GPUs):
		return LacksGPUs
	case len(s.Others) > 0:
		return n.lacksOthers(s)
	}
	return LacksNothing
}

func (n *amountsNode) lacksOthers(s *Shape) (lack Lack) {
	for name, amount := range s.Others {
		switch {
		case amount <= n.others[name]:
		case isHugePages(name):
			return LacksMemory
		default:
			lack = LacksGPUs
		}
	}
	return lack
}

func (c *amounts) Free(node int, gpus bool) (sum int64) {
	if !gpus {
		return c.nodes[node].cpu
	}
	for _, free := range c.nodes[node].gpus {
		sum += free
	}
	return sum
}

// room returns the number of GPUs of which at least asked thousandths are free.
func room(gpus []int64, asked int64) (n int) {
	for _, free := range gpus {
		if free >= asked {
			n++
		}
	}
	return n
}

func (c *amounts) Put(node int, pod int32, s *Shape, gpu int) Outcome {
	c.Assume(node, pod, s, gpu)
	return Outcome{}
}

// hold subtracts the pod's request from the node's free resources. The bit set `bits` has the GPUs
// of which the pod gets a share or all.
func (c *amounts) hold(node int, pod int32, s *Shape, bits uint64) {
	c.nodes[node].enter(s, bits, 1)
	if s.GPUs > 0 {
		c.gpusOf[pod] = bits
	}
}

// enter subtracts the request of a pod from the free resources if the argument `pods` is 1, and
// adds it if pods is -1. The bit set `bits` has the GPUs of which the pod gets a share or all.
func (n *amountsNode) enter(s *Shape, bits uint64, pods int64) {
	n.cpu, n.mib = n.cpu-pods*s.MilliCPU, n.mib-pods*s.MiB
	for name, amount := range s.Others {
		if n.others != nil {
			n.others[name] -= pods * amount
		}
	}
	if s.GPUs == 0 {
		return
	}
	n.kinds[s.Kind()] += int32(pods)
	for i := range n.gpus {
		if bits>>i&1 == 1 {
			n.gpus[i] -= pods * s.MilliGPU
		}
	}
}

// Learn does nothing, because a scheduler that sees only amounts does not use the demand.
func (c *amounts) Learn() bool { return false }

func (c *amounts) Take(node int, pod int32, s *Shape) { c.Forget(node, pod, s) }

func (c *amounts) Assume(node int, pod int32, s *Shape, gpu int) {
	left, bits := s.GPUs, uint64(0)
	for i, free := range c.nodes[node].gpus {
		if left > 0 && (s.Kind() == 0 && i == gpu || s.Kind() > 0 && free == trace.Thousandths) {
			bits |= 1 << i
			left--
		}
	}
	c.hold(node, pod, s, bits)
}

func (c *amounts) Forget(node int, pod int32, s *Shape) {
	c.nodes[node].enter(s, c.gpusOf[pod], -1)
	delete(c.gpusOf, pod)
}

// Suppose returns a node that refuses every pinned pod.
func (c *amounts) Suppose(node int) suppose.Node { return suppose.On(nil, c.room(node)) }

func (c *amounts) room(node int) *count.Node {
	n := &c.nodes[node]
	has := count.List{count.CPU: n.cpu, count.Memory: n.mib << 20, gpuResource: int64(room(n.gpus, trace.Thousandths))}
	maps.Copy(has, n.others)
	return count.NewNode(has, count.Pods)
}

func (c *amounts) Name(pod int32) string { return strconv.Itoa(int(pod)) }
