package vm

import "fmt"

// Shape is a machine to emulate: one NUMA node for each die.
type Shape struct {
	Sockets, DiesPerSocket, CoresPerDie, ThreadsPerCore int
	// MemoryMiB is the memory of one NUMA node.
	MemoryMiB int
	// Near and Far are the SLIT distances to another die of the same socket and to another socket.
	Near, Far int
}

// NUMANodes is the number of NUMA nodes.
func (s Shape) NUMANodes() int { return s.Sockets * s.DiesPerSocket }

// CPUs is the number of logical processors.
func (s Shape) CPUs() int { return s.NUMANodes() * s.cpusPerNode() }

func (s Shape) cpusPerNode() int { return s.CoresPerDie * s.ThreadsPerCore }

// qemuArgs describes the shape to QEMU.
func (s Shape) qemuArgs() []string {
	args := []string{
		"-smp", fmt.Sprintf("%d,sockets=%d,dies=%d,cores=%d,threads=%d", s.CPUs(), s.Sockets, s.DiesPerSocket, s.CoresPerDie, s.ThreadsPerCore),
		"-m", fmt.Sprintf("%dM", s.MemoryMiB*s.NUMANodes()),
	}
	per := s.cpusPerNode()
	for n := range s.NUMANodes() {
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", n, s.MemoryMiB),
			"-numa", fmt.Sprintf("node,nodeid=%d,memdev=m%d,cpus=%d-%d", n, n, n*per, (n+1)*per-1))
	}
	for a := range s.NUMANodes() {
		for b := a + 1; b < s.NUMANodes(); b++ {
			args = append(args, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", a, b, s.distance(a, b)))
		}
	}
	return args
}

func (s Shape) distance(a, b int) int {
	if a/s.DiesPerSocket == b/s.DiesPerSocket {
		return s.Near
	}
	return s.Far
}

// String describes the shape in messages.
func (s Shape) String() string {
	return fmt.Sprintf("%d sockets x %d NUMA nodes, %d cores x %d threads each, %d MiB a node", s.Sockets, s.DiesPerSocket, s.CoresPerDie, s.ThreadsPerCore, s.MemoryMiB)
}
