package cpu

import (
	"math/bits"

	"github.com/berth-dev/berth/topology"
)

// AllocateInput is the input of Allocate.
type AllocateInput struct {
	// N is the requested number of CPUs.
	N int
	// Shared is the kubelet's default CPU set: every CPU that no container has exclusively.
	Shared *topology.CPUSet
	// Reserved has the CPUs that are kept for the system. Siblings has all CPUs of the cores of
	// Reserved (Topology.Siblings).
	Reserved, Siblings *topology.CPUSet
	// Reusable has the reusable CPUs of the pod's earlier init containers, or is nil.
	Reusable *topology.CPUSet
	// Aligned means that the merged hint names NUMA nodes, which are in NUMA. If Aligned is false,
	// the merged hint is the kubelet's nil affinity.
	Aligned bool
	NUMA    topology.NUMASet
}

// CheckSMT returns ErrSMTSize or ErrSMTCores if the option full-pcpus-only refuses n CPUs
// (enforceSMTAlignment). CheckSMT does not count reusable CPUs as free. Kubelets before 1.37 also
// check a container that already has its CPUs.
func (t *Topology) CheckSMT(n int, shared, siblings *topology.CPUSet) error {
	if !t.opts.FullPhysicalCPUsOnly {
		return nil
	}
	if n%t.cores.average != 0 {
		return ErrSMTSize
	}
	sh, sib, free := shared.Words(), siblings.Words(), 0
	for i := range t.words {
		free += bits.OnesCount64(sh[i] &^ sib[i])
	}
	if n > free {
		return ErrSMTCores
	}
	return nil
}

// Allocate stores in out the CPUs for a container that has no exclusive CPUs yet (Allocate and
// allocateCPUs of policy_static.go). On error, Allocate does not change out. On success, the caller
// must remove the CPUs in out from the shared CPUs. If the topology is not Regular, out may contain
// CPUs that were not available, and may have more or fewer than N CPUs.
func (t *Topology) Allocate(in *AllocateInput, out *topology.CPUSet) error {
	if err := t.CheckSMT(in.N, in.Shared, in.Siblings); err != nil {
		return err
	}
	s := scratches.Get().(*scratch)
	err := s.allocate(t, in)
	if err == nil {
		t.store(&s.picked, out)
	}
	scratches.Put(s)
	return err
}

// allocate puts the CPUs for the container into s.picked: as many as possible from the hinted NUMA
// nodes, and the others from any NUMA node.
func (s *scratch) allocate(t *Topology, in *AllocateInput) error {
	t.pool(in, &s.pool)
	s.picked = words{}
	left := in.N
	if in.Aligned {
		available := t.alignedPart(in.NUMA, &s.pool, &s.aligned)
		if err := s.take(t, &s.aligned, min(left, available)); err != nil {
			return err
		}
		for i := range t.words {
			s.picked[i] = s.result[i]
			left -= bits.OnesCount64(s.result[i])
			s.pool[i] &^= s.result[i]
		}
	}
	if err := s.take(t, &s.pool, left); err != nil {
		return err
	}
	for i := range t.words {
		s.picked[i] |= s.result[i]
	}
	return nil
}

// pool sets pool to the shared CPUs that are not reserved, and the reusable CPUs.
func (t *Topology) pool(in *AllocateInput, pool *words) {
	sh, res := in.Shared.Words(), in.Reserved.Words()
	for i := range t.words {
		pool[i] = sh[i] &^ res[i]
	}
	if in.Reusable != nil {
		re := in.Reusable.Words()
		for i := range t.words {
			pool[i] |= re[i]
		}
	}
}

// alignedPart implements getAlignedCPUs: it sets aligned to the CPUs of the pool on the NUMA nodes,
// and returns their number. With align-by-socket, it uses all CPUs on the sockets of the NUMA
// nodes.
func (t *Topology) alignedPart(nodes topology.NUMASet, pool, aligned *words) (n int) {
	*aligned = words{}
	for i := range t.numa.groups {
		if nodes>>t.numa.groups[i].id&1 == 1 {
			add(t.reach[i], aligned)
		}
	}
	for i := range t.words {
		aligned[i] &= pool[i]
		n += bits.OnesCount64(aligned[i])
	}
	return n
}
