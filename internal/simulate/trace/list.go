package trace

// Node is a row of a list of nodes.
type Node struct {
	Name     string
	MilliCPU int64
	MiB      int64
	GPUs     int
	// GPUModel is "" if the list names none.
	GPUModel string
}

// Pod is a row of a list of pods.
type Pod struct {
	Name     string
	MilliCPU int64
	MiB      int64
	// GPUs is the number of GPUs. MilliGPU is the requested part of each GPU in thousandths; only a
	// pod with one GPU asks for less than 1000.
	GPUs     int
	MilliGPU int64
	// GPUModels are the models that the pod may use; empty means any.
	GPUModels []string
	// Others are the requested amounts of huge pages, in bytes, and of other devices.
	Others map[string]int64
	// Members is the number of pods if the row is a gang, whose pods start together; 0 and 1 mean
	// that the row is one pod.
	Members int
	// Created, Scheduled and Deleted are seconds. Timed means that the list has these times.
	// Scheduled is 0 if the pod got no node.
	Created, Scheduled, Deleted int64
	Timed                       bool
}

// Thousandths is the number of thousandths in one GPU or CPU.
const Thousandths = 1000

// Limits of a simulation. MaxGPUs is the limit for one node.
const (
	MaxNodes = 100_000
	MaxPods  = 500_000
	MaxGPUs  = 64
	// MaxMembers limits the number of members of a gang.
	MaxMembers = 1024
)
