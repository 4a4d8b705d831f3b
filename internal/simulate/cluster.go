package simulate

import (
	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Cluster has the nodes on which pods are placed. It is not safe for concurrent use.
type Cluster interface {
	// Size is the number of nodes.
	Size() int
	// AppendKey appends a key of the node's free resources: nodes with equal keys offer the same.
	AppendKey(b []byte, node int) []byte
	// Look fills in what the node offers to a pod of the shape; false if the scheduler sees that
	// the node does not admit the pod.
	Look(node int, s *Shape, l *Look) bool
	// Put puts the pod on the node. gpu is the GPU for a share of a GPU. The outcome is Refused if
	// the node's kubelet refuses the pod.
	Put(node int, pod int32, s *Shape, gpu int) Outcome
	// Take removes the pod from its node.
	Take(node int, pod int32, s *Shape)
	// Free returns the node's free thousandths of GPUs, or of CPUs.
	Free(node int, gpus bool) int64
	// Lacks returns why the node or its kubelet does not admit a pod of the shape.
	Lacks(node int, s *Shape) Lack
	// Assume counts the pod's amounts, as a scheduler does before a kubelet receives the pod;
	// Forget reverses that.
	Assume(node int, pod int32, s *Shape, gpu int)
	Forget(node int, pod int32, s *Shape)
	// Learn updates the demand from the pods that have GPUs now. It reports whether the demand for
	// nodes has changed.
	Learn() bool
	// Suppose returns the node as its ledger describes it, so that moves can be tried. Name returns
	// the node's name of a pod.
	Suppose(node int) suppose.Node
	Name(pod int32) string
}

// Lack is the first resource of which a node has too little for a pod.
type Lack uint8

const (
	// LacksNothing: the node takes the pod.
	LacksNothing Lack = iota
	// LacksCPUs and LacksMemory are about amounts.
	LacksCPUs
	LacksMemory
	// LacksGPUs: too few GPUs or other devices, or GPUs of models that the pod may not have.
	LacksGPUs
	// LacksNUMANodes: all amounts are there, and its kubelet refuses the pod.
	LacksNUMANodes
	lacks // how many there are
)

// Look is the state of a node before a pod is placed there.
type Look struct {
	Shape *Shape
	// Free are the node's free resources, All the sums that pods can have.
	FreeCPU, AllCPU int64 // thousandths
	FreeMiB, AllMiB int64
	FreeGPU         []int64 // thousandths, of each GPU
	GPUModel        string
	Kinds           *[maxKinds]int32 // how many pods with GPUs the node has, by kind
	// The rest is set where the scheduler knows NUMA nodes.
	Machine *topology.Machine
	Model   *placement.Model
	State   *placement.State
	Verdict placement.Verdict
	Zones   []Zone
	// Demand is the demand for the node.
	Demand demand.Level
}

// Zone is a NUMA node of a Look, in whole CPUs and GPUs.
type Zone struct {
	FreeCPU, AllCPU int
	FreeGPU, AllGPU int
	// Mine means that the pod would lie here.
	Mine bool
}

// FreeGPUs returns how many thousandths of GPUs are free in total.
func (l *Look) FreeGPUs() (sum int64) {
	for _, free := range l.FreeGPU {
		sum += free
	}
	return sum
}

// Outcome is a kubelet's answer to a pod that was bound to its node.
type Outcome struct {
	Refused bool
	// NUMANodes is the number of the pod's NUMA nodes; 0 if nothing pins it or nothing is known.
	NUMANodes int
	// Aligned means that CPUs, memory and devices lie together on as few NUMA nodes as an empty
	// machine would need.
	Aligned bool
}

// maxKinds is the number of kinds of pods with GPUs: a share, and each number of whole GPUs.
const maxKinds = 65

// Kind returns 0 for a share of a GPU, otherwise the number of GPUs.
func (s *Shape) Kind() int {
	if s.MilliGPU < 1000 {
		return 0
	}
	return min(s.GPUs, maxKinds-1)
}
