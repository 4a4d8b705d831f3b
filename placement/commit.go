package placement

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement/device"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Commit records an admission as the kubelet does. r and d must be the request and the answer of
// Decide for this state. Containers that the state already has keep their allocations.
func (s *State) Commit(r *Request, d *Decision) { s.books().commit(r, d, nil) }

// commit implements Commit. l has the events during the admission, or is nil.
func (b kubeletBooks) commit(r *Request, d *Decision, l *leaving) {
	if r.PodLevel && b.s.m.whole(r) {
		b.commitWhole(d, l)
		return
	}
	old := b.s.pod(d.UID)
	pod := &PodAllocation{UID: d.UID}
	mem := memoryCommit{s: b.s, r: r}
	var rest []ContainerAllocation
	if old != nil {
		rest = b.dropLost(old, r)
	}
	for i := range d.Containers {
		c := &d.Containers[i]
		held := old.container(c.Name)
		got := ContainerAllocation{Name: c.Name, Kind: c.Kind}
		l.give(ofCPUs, i)
		got.CPUs = b.commitCPUs(c, held)
		l.give(ofMemory, i)
		got.Memory = mem.commit(c, held)
		l.give(ofDevices, i)
		got.Devices = b.commitDevices(c, held)
		pod.Containers = append(pod.Containers, got)
	}
	pod.Containers = append(pod.Containers, rest...)
	b.s.put(pod)
}

func (b kubeletBooks) commitCPUs(c *ContainerDecision, held *ContainerAllocation) topology.CPUSet {
	if held != nil && !held.CPUs.IsEmpty() {
		return held.CPUs
	}
	b.s.shared = b.s.shared.AndNot(&c.CPUs)
	return c.CPUs
}

// memoryCommit records the memory of a pod in the books, container by container.
type memoryCommit struct {
	s     *State
	r     *Request
	reuse memory.Reuse
}

// commit takes the container's requested memory from the books. The blocks in the decision may be
// smaller, because later containers reuse memory.
func (mc *memoryCommit) commit(c *ContainerDecision, held *ContainerAllocation) []MemoryBlock {
	m := mc.s.m
	if m.mem == nil {
		return nil
	}
	if held != nil && held.Memory != nil {
		if len(c.Memory) == 0 {
			return held.Memory // the admission failed before this container
		}
		reuseBlocks(m, &mc.reuse, c.Kind, held.Memory)
		return slices.Clone(c.Memory)
	}
	asked := slices.Clone(c.Memory)
	for i := range asked {
		asked[i].Bytes = mc.r.bytesOf(c.Name, &asked[i])
		if n, on, ok := asked[i].need(m); ok {
			m.mem.Assign(mc.s.book, on, n, &mc.reuse)
		}
	}
	reuseBlocks(m, &mc.reuse, c.Kind, asked)
	if len(c.Memory) == 0 && m.pins(mc.r) && m.set.version < V137 {
		return []MemoryBlock{} // an entry without blocks marks the container as allocated
	}
	return append([]MemoryBlock(nil), c.Memory...)
}

// bytesOf returns the container's request for the block's kind of memory, or the block's size if
// the request has none.
func (r *Request) bytesOf(container string, b *MemoryBlock) uint64 {
	for i := range r.Containers {
		if r.Containers[i].Name == container {
			if bytes, asked := r.Containers[i].memory(b.Resource); asked {
				return bytes
			}
		}
	}
	return b.Bytes
}

func (b kubeletBooks) commitDevices(c *ContainerDecision, held *ContainerAllocation) []DeviceAllocation {
	if len(c.Devices) == 0 {
		if held != nil {
			return held.Devices
		}
		return nil
	}
	got := make([]DeviceAllocation, len(c.Devices))
	for i := range c.Devices {
		got[i] = DeviceAllocation{Resource: c.Devices[i].Resource, IDs: slices.Clone(c.Devices[i].IDs)}
		b.s.pools.use(&got[i])
	}
	if held != nil {
		got = withHeld(got, held.Devices)
	}
	return got
}

// withHeld returns got, plus the container's earlier device allocations (held) for resources that
// got does not have. A resource is missing in got, for example, after a refusal.
func withHeld(got, held []DeviceAllocation) []DeviceAllocation {
	for i := range held {
		if !slices.ContainsFunc(got, func(a DeviceAllocation) bool { return a.Resource == held[i].Resource }) {
			got = append(got, held[i])
		}
	}
	slices.SortFunc(got, func(a, b DeviceAllocation) int { return strings.Compare(a.Resource, b.Resource) })
	return got
}

// Release frees the resources of a pod, as the kubelet does when the pod is gone. An unknown pod is
// not an error.
func (s *State) Release(uid string) {
	i, ok := s.find(uid)
	if !ok {
		return
	}
	pod := s.pods[i].pod
	s.drop(i)
	s.books().release(pod)
}

func (b kubeletBooks) release(pod *PodAllocation) {
	b.releaseCPUs(pod)
	b.strand(pod)
	b.releaseMemory(pod)
	b.releaseDevices(pod)
}

func (b kubeletBooks) releaseCPUs(pod *PodAllocation) {
	if !pod.stranded() {
		all := pod.CPUs()
		b.s.shared = b.s.shared.Or(&all)
	}
}

func (b kubeletBooks) releaseMemory(pod *PodAllocation) {
	for block := range pod.Blocks() {
		block.release(b.s.m, b.s.book)
	}
}

func (b kubeletBooks) releaseDevices(pod *PodAllocation) {
	for i := range pod.Containers {
		for j := range pod.Containers[i].Devices {
			b.s.pools.release(&pod.Containers[i].Devices[j])
		}
	}
}

// Linger computes the earlier state in which a pod still had the allocation p; s is the state after
// this pod has left. free reports whether no pod in s has any of the CPUs and devices of p. before
// is nil if the earlier state cannot be computed from s. If Berth decides, or if s still has the
// pod, before is nil and free is false.
func (s *State) Linger(p *PodAllocation) (before *State, free bool) {
	if s.m.Decides() || s.Has(p.UID) {
		return nil, false
	}
	to := s.Clone()
	to.put(&PodAllocation{UID: p.UID, Whole: p.Whole, Containers: p.Containers})
	held := p.CPUs()
	if !held.IsSubsetOf(&s.shared) {
		return nil, false
	}
	to.shared = to.shared.AndNot(&held)
	for b := range p.Blocks() {
		b.take(s.m, to.book)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		for j := range c.Devices {
			if s.pools.anyInUse(&c.Devices[j]) {
				return nil, false
			}
			to.pools.use(&c.Devices[j])
		}
	}
	after := to.Clone()
	if after.Release(p.UID); to.Check() != nil || !after.Equal(s) {
		return nil, true
	}
	return to, true
}

// Start records that the named containers of a pod have started, in the pod's order. If containers
// is nil, it records all containers. Start frees the memory of the regular init containers before
// these containers (memorymanager.AddContainer), but not the CPUs and devices of the init
// containers.
func (s *State) Start(uid string, containers []string) {
	i, ok := s.find(uid)
	if !ok || s.m.mem == nil {
		return
	}
	pod := &PodAllocation{UID: uid, Whole: s.pods[i].pod.Whole, Containers: slices.Clone(s.pods[i].pod.Containers)}
	freed := false
	for j := range pod.Containers {
		if containers == nil || slices.Contains(containers, pod.Containers[j].Name) {
			freed = s.finishInit(pod, j) || freed
		}
	}
	if freed {
		s.pods[i].pod = pod
	}
}

// finishInit frees the memory of the regular init containers before the container at a position. If
// the pod has its memory as a whole (Whole.Memory), nothing is freed in the book.
func (s *State) finishInit(pod *PodAllocation, before int) (freed bool) {
	cs := pod.Containers[:before]
	for i := range cs {
		if cs[i].Kind == Init && cs[i].Memory != nil {
			if pod.Whole == nil || pod.Whole.Memory == nil {
				releaseBlocks(s.m, s.book, cs[i].Memory)
			}
			cs[i].Memory, freed = nil, true
		}
	}
	return freed
}

// SetPool replaces the last report of a device plugin with a new one. For a plugin that is gone,
// the caller reports all devices as unhealthy.
func (s *State) SetPool(p DevicePool) {
	s.setPool(p, true)
}

func (s *State) setPool(p DevicePool, registered bool) {
	p.Devices = slices.Clone(p.Devices)
	devices := make([]device.Device, len(p.Devices))
	for i, d := range p.Devices {
		devices[i] = device.Device{ID: d.ID, Mask: s.m.compact(d.NUMA), HasTopology: d.HasTopology,
			HasNodes: d.HasTopology && d.NUMA != 0, Healthy: !d.Unhealthy, Elsewhere: s.m.space != nil && d.NUMA&s.m.space.Others() != 0}
	}
	compiled := device.NewPool(s.m.space, devices, device.Options{
		AllNodes: s.m.set.version < V136, NVIDIA: p.Preference == NVIDIAPreference, Points: p.Points,
	})
	pool := devicePool{resource: p.Resource, registered: registered, source: p, pool: compiled, inUse: make(device.Set, compiled.Words())}
	at := s.pools.index(p.Resource)
	if at < 0 {
		at, _ = slices.BinarySearchFunc(s.pools, p.Resource, func(q devicePool, r string) int { return strings.Compare(q.resource, r) })
		s.pools = slices.Insert(s.pools, at, pool)
	} else {
		s.pools[at] = pool
	}
	for i := range s.pods {
		for j := range s.pods[i].pod.Containers {
			for k := range s.pods[i].pod.Containers[j].Devices {
				if a := &s.pods[i].pod.Containers[j].Devices[k]; a.Resource == p.Resource {
					s.pools.use(a)
				}
			}
		}
	}
	if _, ours := s.m.obey.kindOfDevice(p.Resource); ours {
		jointBooks{s}.recount()
	}
}
