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
	// GPUs is the number of GPUs, and MilliGPU the thousandths of each GPU. Only a pod with one GPU
	// asks for less than 1,000.
	GPUs     int
	MilliGPU int64
	// GPUModels are the models that the pod may use; empty means any.
	GPUModels []string
	// Others are the requested amounts of huge pages, in bytes, and of other devices.
	Others map[string]int64
	// Members is the number of such pods in a gang, whose members start together; 0 and 1 mean no
	// gang.
	Members int
	// Created, Scheduled and Deleted are seconds. Timed means that the list has these times.
	// Scheduled is 0 if the pod got no node.
	Created, Scheduled, Deleted int64
	Timed                       bool
}

// Thousandths is the number of thousandths of a GPU or a CPU.
const Thousandths = 1000

// Limits of a simulation.
const (
	MaxNodes = 100_000
	MaxPods  = 500_000
	MaxGPUs  = 64
	// MaxMembers limits the number of members of a gang.
	MaxMembers = 1024
)
