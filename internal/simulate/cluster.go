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
	// AppendKey appends a key of the node's free resources. Nodes with the same key offer the same
	// resources to every pod.
	AppendKey(b []byte, node int) []byte
	// Look fills l with the node's resources for a pod of the shape. It returns false if the
	// scheduler knows that the node does not admit the pod.
	Look(node int, s *Shape, l *Look) bool
	// Put puts the pod on the node. If the pod asks for a share of a GPU, gpu is the index of that
	// GPU. The outcome is Refused if the node's kubelet refuses the pod.
	Put(node int, pod int32, s *Shape, gpu int) Outcome
	// Take removes the pod from its node.
	Take(node int, pod int32, s *Shape)
	// Free returns an amount of the node in thousandths: its free GPUs if gpus is set, and
	// otherwise its free CPUs.
	Free(node int, gpus bool) int64
	// Lacks returns why the node or its kubelet does not admit a pod of the shape.
	Lacks(node int, s *Shape) Lack
	// Assume subtracts the pod's request from the node's free amounts, as a scheduler does before a
	// kubelet receives the pod. Forget adds it again.
	Assume(node int, pod int32, s *Shape, gpu int)
	Forget(node int, pod int32, s *Shape)
	// Learn updates the demand for nodes (package demand) from the running pods with GPUs. It
	// reports whether the demand for any node has changed.
	Learn() bool
	// Suppose returns a copy of the node on which moves of pods can be tried. Name returns the
	// pod's UID in that copy.
	Suppose(node int) suppose.Node
	Name(pod int32) string
}

// Lack is the first reason why a node does not admit a pod. The reasons are checked in the order of
// the constants.
type Lack uint8

const (
	// LacksNothing: the node admits the pod.
	LacksNothing Lack = iota
	// LacksCPUs: the node has too few free CPUs. LacksMemory: it has too little free memory.
	LacksCPUs
	LacksMemory
	// LacksGPUs: the node has too few free GPUs or other devices, or its GPUs are of a model that
	// the pod cannot use.
	LacksGPUs
	// LacksNUMANodes: the node has enough of each resource, but its kubelet refuses the pod.
	LacksNUMANodes
	lacks // the number of values of Lack
)

// Look is the state of a node for which a strategy computes a score for a pod.
type Look struct {
	Shape *Shape
	// The Free fields are the node's free resources. The All fields are the node's allocatable
	// resources.
	FreeCPU, AllCPU int64 // thousandths
	FreeMiB, AllMiB int64
	FreeGPU         []int64 // thousandths, of each GPU
	GPUModel        string
	Kinds           *[maxKinds]int32 // the number of the node's pods with GPUs, by kind
	// The following fields are set if the Cluster has NUMA nodes and the strategy is not Blind.
	Machine *topology.Machine
	Model   *placement.Model
	State   *placement.State
	Verdict placement.Verdict
	Zones   []Zone
	// Demand is the demand for the node: how many of the devices in use belong to pods that the
	// node could also run.
	Demand demand.Level
}

// Zone is a NUMA node of a Look, in whole CPUs and GPUs.
type Zone struct {
	FreeCPU, AllCPU int
	FreeGPU, AllGPU int
	// Mine means that the pod would be placed on this NUMA node.
	Mine bool
}

// FreeGPUs returns the total of the free GPUs, in thousandths of a GPU.
func (l *Look) FreeGPUs() (sum int64) {
	for _, free := range l.FreeGPU {
		sum += free
	}
	return sum
}

// Outcome is a kubelet's answer to a pod that is bound to its node.
type Outcome struct {
	Refused bool
	// NUMANodes is the number of the pod's NUMA nodes. It is 0 if the pod is not pinned or the NUMA
	// nodes are unknown.
	NUMANodes int
	// Aligned means that the pod's exclusive CPUs, memory and devices are on no more NUMA nodes
	// than they would be on an empty node. In a Cluster without NUMA nodes no pod is aligned.
	Aligned bool
}

// maxKinds is the number of kinds of pods with GPUs: a share, and each number of whole GPUs.
const maxKinds = 65

// Kind returns 0 for a share of a GPU, and otherwise the number of whole GPUs.
func (s *Shape) Kind() int {
	if s.MilliGPU < 1000 {
		return 0
	}
	return min(s.GPUs, maxKinds-1)
}
