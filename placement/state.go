package placement

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement/device"
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
	pools []devicePool // ascending by resource
	pods  []podRef     // ascending by uid
	uids  uids         // of pods
	last  uint64       // the highest podRef.order so far
	reuse reuseMemo
}

// devicePool is what a plugin said last, and which of its devices containers hold.
type devicePool struct {
	resource string
	// registered is false for a resource that only pods know: its plugin has not come back.
	registered bool
	source     DevicePool
	pool       *device.Pool
	inUse      device.Set
}

// podRef is a pod with its place in the order of admission. What it points to is never changed: a
// change replaces it.
type podRef struct {
	uid   string
	order uint64
	pod   *PodAllocation
}

// NewState returns the state of a kubelet with empty checkpoints and no device plugins.
func (m *Model) NewState() *State { return m.empty.Clone() }

func (m *Model) newEmpty() *State {
	s := &State{m: m, shared: m.cpus.initial}
	if m.mem != nil {
		s.book = m.mem.NewBook()
	}
	if m.joint != nil {
		s.account = m.joint.NewBook()
		s.shared = m.joint.SharedCPUs(s.account)
		s.given = make([]uint64, m.places)
	}
	return s
}

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
	s.copyPools(o.pools)
	s.reuse.copyFrom(&o.reuse)
}

func (s *State) copyPools(from []devicePool) {
	pools := slices.Grow(s.pools[:0], len(from))[:len(from)]
	for i := range from {
		inUse := append(pools[i].inUse[:0], from[i].inUse...)
		pools[i] = from[i]
		pools[i].inUse = inUse
	}
	s.pools = pools
}

// pod returns what a pod holds, nil if it is not there.
func (s *State) pod(uid string) *PodAllocation {
	if !s.uids.mayHave(uid) {
		return nil
	}
	if i, ok := s.find(uid); ok {
		return s.pods[i].pod
	}
	return nil
}

func (s *State) find(uid string) (int, bool) {
	return slices.BinarySearchFunc(s.pods, uid, func(p podRef, uid string) int { return strings.Compare(p.uid, uid) })
}

// put stores a pod; one that is already there keeps its place in the order.
func (s *State) put(p *PodAllocation) {
	i, ok := s.find(p.UID)
	if ok {
		s.pods[i].pod = p
		return
	}
	s.last++
	s.uids.add(p.UID)
	s.pods = slices.Insert(s.pods, i, podRef{uid: p.UID, order: s.last, pod: p})
}

// drop takes out the pod at a position.
func (s *State) drop(i int) {
	s.pods = slices.Delete(s.pods, i, i+1)
	s.uids = uids{}
	for j := range s.pods {
		s.uids.add(s.pods[j].uid)
	}
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
	if s.m.joint == nil {
		free := s.FreeCPUs()
		return node.CPUs.AndLen(&free)
	}
	for pos := range s.m.space.Len() {
		if s.m.space.ID(pos) == node.ID {
			return s.m.joint.FreeOn(s.account, pos)
		}
	}
	return 0
}

// poolIndex returns the position of a resource that the device manager knows, -1 for others.
func (s *State) poolIndex(resource string) int {
	for i := range s.pools {
		if s.pools[i].resource == resource {
			return i
		}
	}
	return -1
}

// container returns what a container holds, nil if nothing is known about it.
func (p *PodAllocation) container(name string) *ContainerAllocation {
	if p == nil {
		return nil
	}
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// devices returns the devices of a resource that the container holds, and whether there is an entry
// for it.
func (c *ContainerAllocation) devices(resource string) ([]string, bool) {
	if c == nil {
		return nil, false
	}
	for i := range c.Devices {
		if c.Devices[i].Resource == resource {
			return c.Devices[i].IDs, true
		}
	}
	return nil, false
}
