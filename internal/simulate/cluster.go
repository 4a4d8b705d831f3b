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
	// AppendKey appends all that decides what a node offers: nodes with equal keys offer the same.
	AppendKey(b []byte, node int) []byte
	// Look says what the node offers to a pod of the shape; false if it does not take the pod, as
	// far as the scheduler sees.
	Look(node int, s *Shape, l *Look) bool
	// Put puts the pod on the node. gpu is which of the node's GPUs a share is of. The outcome is
	// Refused if the node's kubelet refuses the pod.
	Put(node int, pod int32, s *Shape, gpu int) Outcome
	// Take takes the pod from the node that it was put on.
	Take(node int, pod int32, s *Shape)
	// Free is how many thousandths of GPUs the node has left, or of CPUs.
	Free(node int, gpus bool) int64
	// Lacks says what keeps a pod of the shape from the node, or from being admitted by its
	// kubelet.
	Lacks(node int, s *Shape) Lack
	// Assume counts the pod's amounts, as a scheduler does before a kubelet has heard of the pod;
	// Forget takes that back.
	Assume(node int, pod int32, s *Shape, gpu int)
	Forget(node int, pod int32, s *Shape)
	// Learn updates the demand from the pods that have GPUs now. It reports whether the demand for
	// nodes has changed.
	Learn() bool
	// Suppose is the node as its ledger has it, to try moves on. Name is what it calls a pod.
	Suppose(node int) suppose.Node
	Name(pod int32) string
}

// Lack is what a node has too little of for a pod, the first of these.
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

// Look is what a node offers to a pod before the pod is placed there.
type Look struct {
	Shape *Shape
	// Free is what the node has left, All what pods can have of it in total.
	FreeCPU, AllCPU int64 // thousandths
	FreeMiB, AllMiB int64
	FreeGPU         []int64 // thousandths, of each GPU
	GPUModel        string
	Kinds           *[maxKinds]int32 // how many pods with GPUs the node has, by kind
	// The rest is known where the scheduler knows NUMA nodes.
	Machine *topology.Machine
	Model   *placement.Model
	State   *placement.State
	Verdict placement.Verdict
	Zones   []Zone
	// Demand is how much demand there is for the node.
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
	// NUMANodes is how many NUMA nodes the pod lies on; 0 if nothing pins it, or nothing is known.
	NUMANodes int
	// Aligned means that CPUs, memory and devices lie together on as few NUMA nodes as an empty
	// machine would need.
	Aligned bool
}

// maxKinds is how many kinds of pods with GPUs there are: a share, and whole GPUs by their number.
const maxKinds = 65

// Kind returns 0 for a share of a GPU, otherwise the number of GPUs.
func (s *Shape) Kind() int {
	if s.MilliGPU < 1000 {
		return 0
	}
	return min(s.GPUs, maxKinds-1)
}
