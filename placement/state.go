package placement

import (
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// State has the allocations on a node: the content of the kubelet's checkpoints and the reports of
// device plugins. Use it only with the Model that created it, and do not change it concurrently.
// Admit, Decide and Explain only read it.
type State struct {
	m *Model
	// shared is defaultCpuSet: every CPU that no container has exclusively. It is empty if a
	// kubelet without the static CPU manager decides.
	shared topology.CPUSet
	book   *memory.Book // nil without the static memory manager
	// account records the resources that Berth has assigned to the pods in podTable. It is nil if
	// the kubelet decides.
	account *joint.Book
	// given has, by Place of the providers, the amounts that the pods in podTable have.
	given []uint64
	pools devicePools
	podTable
}

// Empty returns the state of a node without pods and device plugins. The caller must not change it.
func (m *Model) Empty() *State { return m.empty }

// NewState returns a copy of Empty.
func (m *Model) NewState() *State { return m.empty.Clone() }

// Clone returns an independent copy.
func (s *State) Clone() *State {
	c := new(State)
	c.CopyFrom(s)
	return c
}

// CopyFrom copies o to s, and reuses the memory of s. It allocates nothing if both have equal
// sizes.
func (s *State) CopyFrom(o *State) {
	if s == o {
		return
	}
	s.m, s.shared, s.last = o.m, o.shared, o.last
	s.pods, s.uids = append(s.pods[:0], o.pods...), o.uids
	if o.book != nil {
		if s.book == nil {
			s.book = new(memory.Book)
		}
		s.book.CopyFrom(o.book)
	}
	if o.account != nil {
		if s.account == nil {
			s.account = new(joint.Book)
		}
		s.account.CopyFrom(o.account)
	}
	s.given = append(s.given[:0], o.given...)
	s.pools.copyFrom(o.pools)
}

// Pods returns the number of admitted pods.
func (s *State) Pods() int { return len(s.pods) }

// Has reports whether the state has a pod.
func (s *State) Has(uid string) bool { return s.pod(uid) != nil }

// Pod returns the allocation of a pod. The caller must not change it.
func (s *State) Pod(uid string) (PodAllocation, bool) {
	if p := s.pod(uid); p != nil {
		return *p, true
	}
	return PodAllocation{}, false
}

// SharedCPUs returns the CPUs that no container has exclusively, including reserved CPUs (without
// strict-cpu-reservation). If a kubelet without the static CPU manager decides, the set is empty.
func (s *State) SharedCPUs() topology.CPUSet { return s.shared }

// FreeCPUs returns the CPUs that containers can still get exclusively: the shared CPUs that are not
// reserved.
func (s *State) FreeCPUs() topology.CPUSet { return s.shared.AndNot(&s.m.cpus.reserved) }

// FreeCPUsOn returns the number of CPUs of a NUMA node that pods can still get exclusively. If
// Berth decides, allocated CPU time and CPUs that stay idle for a pod reduce the number too.
func (s *State) FreeCPUsOn(node *topology.NUMANode) int {
	if s.m.obey == nil {
		free := s.FreeCPUs()
		return node.CPUs.AndLen(&free)
	}
	if pos, ok := s.m.space.Position(node.ID); ok {
		return s.m.obey.joint.FreeOn(s.account, pos)
	}
	return 0
}
