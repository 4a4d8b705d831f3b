package placement

import (
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// State says what is handed out on a node: the kubelet's checkpoints and what its device plugins
// said. It belongs to the Model that made it and is not safe for concurrent use while it is
// changed. Admit, Decide and Explain only read it.
type State struct {
	m *Model
	// shared is defaultCpuSet: every CPU that no container has to itself. Empty without the static
	// CPU manager.
	shared topology.CPUSet
	book   *memory.Book // nil without the static memory manager
	// account is what Berth has handed out where it decides; it follows from pods. Nil where the
	// kubelet does.
	account *joint.Book
	// given is what is handed out of providers' supplies, by place; it follows from pods.
	given []uint64
	pools devicePools
	podTable
	reuse *reuseMemo // nil unless RememberReuse was called
}

// NewState returns the state of a kubelet with empty checkpoints and no device plugins.
func (m *Model) NewState() *State { return m.empty.Clone() }

// Clone returns an independent copy.
func (s *State) Clone() *State {
	c := new(State)
	c.CopyFrom(s)
	return c
}

// CopyFrom makes s equal to o, reusing the memory of s: between states of one size it allocates
// nothing.
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
	s.reuse = o.reuse.clone()
}

// Pods returns the number of admitted pods.
func (s *State) Pods() int { return len(s.pods) }

// Has says whether a pod is admitted.
func (s *State) Has(uid string) bool { return s.pod(uid) != nil }

// Pod returns what a pod holds. The caller must not change it.
func (s *State) Pod(uid string) (PodAllocation, bool) {
	if p := s.pod(uid); p != nil {
		return *p, true
	}
	return PodAllocation{}, false
}

// SharedCPUs returns the CPUs that no container has to itself, reserved ones included.
func (s *State) SharedCPUs() topology.CPUSet { return s.shared }

// FreeCPUs returns the CPUs that containers could still have to themselves: the shared ones that
// are not reserved.
func (s *State) FreeCPUs() topology.CPUSet { return s.shared.AndNot(&s.m.cpus.reserved) }

// FreeCPUsOn returns how many CPUs of a NUMA node pods can still have to themselves. Where Berth
// decides, CPU time that is handed out takes CPUs away, too, and so do CPUs that a pod keeps idle.
func (s *State) FreeCPUsOn(node *topology.NUMANode) int {
	return s.books().freeOn(node)
}
