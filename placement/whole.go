package placement

import (
	"iter"
	"slices"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Whole is what a pod has as a whole, and its containers have parts of: a kubelet with the gate
// PodLevelResourceManagers and the scope pod hands out spec.resources once (admitUsingPodResources
// of pkg/kubelet/cm/topologymanager/scope_pod.go).
type Whole struct {
	// CPUs are the pod's; empty means none of its own. A container that asks for some exclusively
	// has those, and all others have the rest together.
	CPUs topology.CPUSet
	// Memory is charged once, whatever the containers' blocks add up to. Nil means that nothing is;
	// the kubelet tells that from an entry without blocks.
	Memory []MemoryBlock
}

// wholeRoom is memory for a Whole.
type wholeRoom struct {
	whole  Whole
	blocks []MemoryBlock
}

func (w *Whole) clone() *Whole {
	if w == nil {
		return nil
	}
	return &Whole{CPUs: w.CPUs, Memory: slices.Clone(w.Memory)}
}

// Same reports whether both are the same CPUs and memory; none is the same as nothing.
func (w *Whole) Same(o *Whole) bool {
	var none Whole
	if w == nil {
		w = &none
	}
	if o == nil {
		o = &none
	}
	return w.CPUs == o.CPUs && slices.Equal(w.Memory, o.Memory)
}

// Equal reports whether both are none, or have the same.
func (w *Whole) Equal(o *Whole) bool {
	if w == nil || o == nil {
		return w == o
	}
	return w.CPUs == o.CPUs && (w.Memory == nil) == (o.Memory == nil) && slices.Equal(w.Memory, o.Memory)
}

// whole reports whether the kubelet places the pod by spec.resources.
func (m *Model) whole(r *Request) bool {
	if !r.PodLevel || !m.set.podLevel.managed || m.Decides() {
		return false
	}
	rules := m.rulesFor(r.Rules)
	return rules.Scope == PodScope && rules.Policy != PolicyNone
}

// KnowsWholes reports whether the managers know assignments of whole pods.
func (m *Model) KnowsWholes() bool { return m.set.podLevel.managed }

// PlacesWholes reports whether the kubelet places pods by spec.resources: a restart places those
// once more (DefectRestartRepeats).
func (m *Model) PlacesWholes() bool {
	return m.whole(&Request{PodLevel: true}) && (m.set.static || m.set.memory)
}

// wholeCPUs is how many CPUs such a pod gets: podGuaranteedCPUs.
func (m *Model) wholeCPUs(r *Request) int {
	if m.cpus.topology == nil || !m.pins(r) || r.Level.MilliCPU%1000 != 0 {
		return 0
	}
	return int(r.Level.MilliCPU / 1000)
}

// podCPUs is how many exclusive CPUs a pod gets at one time if it is placed as one.
func (m *Model) podCPUs(r *Request) int {
	if m.whole(r) {
		return m.wholeCPUs(r)
	}
	var sum Peak[int]
	for c := range r.Containers {
		sum.Add(r.Containers[c].Kind, m.exclusiveCPUs(r, c))
	}
	return sum.Most()
}

// allocateWhole is AllocatePod of all managers. None of them looks if the pod has something
// already.
func (ad *admission) allocateWhole(h hint.Hint) Detail {
	for c := range ad.d.Containers {
		ad.setHint(c, h)
	}
	for _, p := range providers {
		if ad.meanwhile != nil {
			ad.pass()
		}
		if d := p.allocate(ad, wholePod, h); d != NoDetail {
			return d
		}
	}
	if ad.m.guardRepeats && ad.d.Whole != nil {
		return DefectRestartRepeats
	}
	return NoDetail
}

// given is what the pod gets as a whole.
func (d *Decision) given() *Whole {
	if d.room == nil {
		d.room = &wholeRoom{blocks: []MemoryBlock{}}
	}
	if d.Whole == nil {
		d.room.whole = Whole{}
		d.Whole = &d.room.whole
	}
	return d.Whole
}

// allocateWholeCPUs is AllocatePod of the static CPU manager.
func (ad *admission) allocateWholeCPUs(h hint.Hint) Detail {
	n := ad.m.wholeCPUs(ad.r)
	switch {
	case n == 0:
		return NoDetail
	case ad.sharesNoCPUs(n):
		return EmptySharedPool
	}
	in := cpu.AllocateInput{N: n, Shared: &ad.cpus.shared, Reserved: &ad.m.cpus.reserved, Siblings: &ad.m.cpus.siblings, Aligned: !h.Any, NUMA: ad.m.expand(h.Mask)}
	var got topology.CPUSet
	if err := ad.m.cpus.topology.Allocate(&in, &got); err != nil {
		return cpuDetail(err)
	}
	if ad.m.guard {
		if d := ad.guardCPUs(&got); d != NoDetail {
			return d
		}
	}
	ad.d.given().CPUs = got
	ad.cpus.shared = ad.cpus.shared.AndNot(&got)
	return ad.divideCPUs(got)
}

// sharesNoCPUs is validatePodScopeResources of the CPU manager: some container shares what others
// leave of the pod's CPUs, and they leave none.
func (ad *admission) sharesNoCPUs(all int) bool {
	taken, shared := 0, false
	for c := range ad.r.Containers {
		switch n := ad.exclusiveCPUs(c); {
		case ad.r.Containers[c].Kind == Init:
			if n == 0 && taken >= all {
				return true
			}
		case n == 0:
			shared = true
		default:
			taken += n
		}
	}
	return shared && taken >= all
}

// leavesNone reports whether the pod lacks CPUs or memory to share, wherever it is.
func (ad *admission) leavesNone() bool {
	if n := ad.m.wholeCPUs(ad.r); n > 0 && ad.sharesNoCPUs(n) {
		return true
	}
	_, readable := ad.r.Level.asksMemory()
	return ad.m.mem != nil && ad.pins() && readable && ad.sharesNoMemory()
}

// divideCPUs gives the containers parts of the pod's CPUs. An init container that ends may have any
// but those of the sidecars before it.
func (ad *admission) divideCPUs(left topology.CPUSet) Detail {
	for c := range ad.r.Containers {
		kind, mine := ad.r.Containers[c].Kind, &ad.d.Containers[c].CPUs
		n := ad.exclusiveCPUs(c)
		switch {
		case n > 0:
			if err := ad.m.cpus.topology.Take(&left, n, mine); err != nil {
				for i := range ad.d.Containers {
					ad.d.Containers[i].CPUs = topology.CPUSet{} // none is written down
				}
				return cpuDetail(err)
			}
			if kind != Init {
				left = left.AndNot(mine)
			}
		case kind == Init:
			*mine = left
		}
	}
	for c := range ad.r.Containers {
		if ad.r.Containers[c].Kind != Init && ad.exclusiveCPUs(c) == 0 {
			ad.d.Containers[c].CPUs = left
		}
	}
	return NoDetail
}

// wholeNeeds sets ad.memory.needs to what the pod asks for as a whole (getPodRequestedResources).
func (ad *admission) wholeNeeds() Detail {
	needs := ad.memory.needs[:0]
	for i := range ad.r.Level.Memory {
		r := &ad.r.Level.Memory[i]
		k, ok := ad.m.mem.Kind(r.Resource)
		switch {
		case r.Fraction:
			return MemoryNotInteger
		case r.Bytes == 0:
		case !ok:
			return DefectMissingMemoryKind
		default:
			needs = append(needs, memory.Need{Kind: k, Bytes: r.Bytes})
		}
	}
	ad.memory.needs = needs
	return NoDetail
}

// sharesNoMemory is validatePodScopeResources of the memory manager, which also fails if an amount
// is no whole number of bytes.
func (ad *admission) sharesNoMemory() bool {
	for c := range ad.r.Containers {
		if !ad.m.shares(ad.r, c) && ad.r.Containers[c].fractional() {
			return true
		}
	}
	for i := range ad.r.Level.Memory {
		if all := &ad.r.Level.Memory[i]; all.Bytes > 0 && ad.sharesNone(all) {
			return true
		}
	}
	return false
}

func (ad *admission) sharesNone(all *MemoryRequest) bool {
	taken, shared := uint64(0), false
	for c := range ad.r.Containers {
		r := &ad.r.Containers[c]
		switch shares := ad.sharesMemory(c); {
		case r.Kind == Init:
			if shares && taken >= all.Bytes {
				return true
			}
		case shares:
			shared = true
		default:
			taken += r.Bytes(all.Resource)
		}
	}
	return shared && taken >= all.Bytes
}

// sharesMemory reports whether container c shares what others leave of the pod's memory.
func (ad *admission) sharesMemory(c int) bool {
	return ad.m.shares(ad.r, c) || len(ad.r.Containers[c].Memory) == 0
}

// asksMemory reports whether spec.resources asks for memory, and whether in amounts that the
// kubelet can read.
func (r *LevelRequest) asksMemory() (some, readable bool) {
	readable = true
	for i := range r.Memory {
		some, readable = some || r.Memory[i].Bytes > 0, readable && !r.Memory[i].Fraction
	}
	return some, readable
}

// emptyPoolHints is what GetPodTopologyHints of the memory manager does before it looks for memory.
func (ad *admission) emptyPoolHints() (done bool) {
	some, readable := ad.r.Level.asksMemory()
	switch {
	case !readable:
		return true
	case !ad.sharesNoMemory():
		return false
	case some:
		ad.list(memory.Regular).Reset(hint.Impossible)
	}
	return true
}

// allocateWholeMemory is AllocatePod of the static memory manager. An amount that cannot be read is
// no error.
func (ad *admission) allocateWholeMemory(h hint.Hint) Detail {
	if _, readable := ad.r.Level.asksMemory(); !readable {
		return NoDetail
	}
	if ad.sharesNoMemory() {
		return EmptySharedPool
	}
	if d := ad.wholeNeeds(); d != NoDetail {
		return d
	}
	if ad.m.guard && ad.m.mem.Underflows(ad.memory.needs) {
		return DefectMemoryUnderflow
	}
	mask, err := ad.m.mem.Choose(ad.memoryQuery(), h)
	if err != nil {
		return memoryDetail(err)
	}
	if d := ad.guardMemory(mask); d != NoDetail {
		return d
	}
	got := ad.d.given()
	got.Memory = ad.d.room.blocks[:0]
	for _, n := range ad.memory.needs {
		ad.m.mem.Take(ad.memory.book, mask, n)
		got.Memory = append(got.Memory, MemoryBlock{Resource: ad.m.mem.Names()[n.Kind], NUMA: ad.m.expand(mask), Bytes: n.Bytes})
	}
	ad.d.room.blocks = got.Memory
	ad.divideMemory(ad.m.expand(mask))
	return NoDetail
}

// divideMemory gives the containers parts of the pod's memory, as divideCPUs does. What they have
// of kinds that the pod does not ask for is not charged. The kubelet subtracts all without a sign.
func (ad *admission) divideMemory(on topology.NUMASet) {
	left := append(ad.memory.left[:0], ad.d.Whole.Memory...)
	for c := range ad.r.Containers {
		r := &ad.r.Containers[c]
		if ad.sharesMemory(c) {
			if r.Kind == Init {
				ad.giveBlocks(c, left)
			}
			continue
		}
		for i := range r.Memory {
			m := &r.Memory[i]
			if m.Bytes == 0 {
				continue
			}
			ad.d.Containers[c].Memory = append(ad.d.Containers[c].Memory, MemoryBlock{m.Resource, on, m.Bytes})
			at := slices.IndexFunc(left, func(b MemoryBlock) bool { return b.Resource == m.Resource })
			switch {
			case r.Kind == Init:
			case at >= 0:
				left[at].Bytes -= m.Bytes
			case r.Kind == App:
				left = append(left, MemoryBlock{m.Resource, on, -m.Bytes})
			}
		}
	}
	for c := range ad.r.Containers {
		if ad.sharesMemory(c) && ad.r.Containers[c].Kind != Init {
			ad.giveBlocks(c, left)
		}
	}
	ad.memory.left = left
}

func (ad *admission) giveBlocks(c int, blocks []MemoryBlock) {
	for _, b := range blocks {
		if b.Bytes > 0 {
			ad.d.Containers[c].Memory = append(ad.d.Containers[c].Memory, b)
		}
	}
}

// commitWhole is commit for a pod that is placed by spec.resources. What it had as a whole is lost
// if it gets something again: nobody else gets it, and it does not come back.
func (s kubeletBooks) commitWhole(r *Request, d *Decision, l *leaving) {
	old := s.pod(d.UID)
	pod := &PodAllocation{UID: d.UID, Whole: new(Whole)}
	if old != nil && old.Whole != nil {
		*pod.Whole = *old.Whole
	}
	given := d.Whole
	if given == nil {
		given = new(Whole)
	}
	l.give(cpuProvider{}, 0)
	if !given.CPUs.IsEmpty() {
		s.shared = s.shared.AndNot(&given.CPUs)
		pod.Whole.CPUs = given.CPUs
	}
	l.give(memoryProvider{}, 0)
	if given.Memory != nil {
		s.takeMemory(given.Memory)
		pod.Whole.Memory = slices.Clone(given.Memory)
	}
	l.give(deviceProvider{}, 0)
	for i := range d.Containers {
		c := &d.Containers[i]
		got := ContainerAllocation{Name: c.Name, Kind: c.Kind}
		if held := old.container(c.Name); held != nil {
			got = *held
		}
		if !c.CPUs.IsEmpty() {
			got.CPUs = c.CPUs
		}
		if given.Memory != nil {
			got.Memory = append([]MemoryBlock{}, c.Memory...)
		}
		pod.Containers = append(pod.Containers, got)
	}
	if pod.Whole.CPUs.IsEmpty() && pod.Whole.Memory == nil {
		pod.Whole = nil
	}
	s.put(pod)
}

func (s kubeletBooks) takeMemory(blocks []MemoryBlock) {
	for i := range blocks {
		if k, ok := s.m.mem.kindOf(blocks[i].Resource); ok {
			s.m.mem.Take(s.book, s.m.compact(blocks[i].NUMA), memory.Need{Kind: k, Bytes: blocks[i].Bytes})
		}
	}
}

// Blocks are the blocks by which the pod's memory is charged: its own, or else its containers'.
func (p *PodAllocation) Blocks() iter.Seq[*MemoryBlock] {
	return func(yield func(*MemoryBlock) bool) {
		if p.Whole != nil && p.Whole.Memory != nil {
			for i := range p.Whole.Memory {
				if !yield(&p.Whole.Memory[i]) {
					return
				}
			}
			return
		}
		for i := range p.Containers {
			for j := range p.Containers[i].Memory {
				if !yield(&p.Containers[i].Memory[j]) {
					return
				}
			}
		}
	}
}

// CPUs are all exclusive CPUs that the pod has: its own, or else its containers'.
func (p *PodAllocation) CPUs() (all topology.CPUSet) {
	if p.Whole != nil && !p.Whole.CPUs.IsEmpty() {
		return p.Whole.CPUs
	}
	for i := range p.Containers {
		all = all.Or(&p.Containers[i].CPUs)
	}
	return all
}

// stranded reports whether no container has any of the pod's CPUs. They come back with the last
// container that does (RemoveContainer), and so never.
func (p *PodAllocation) stranded() bool {
	return p.Whole != nil && !p.Whole.CPUs.IsEmpty() &&
		!slices.ContainsFunc(p.Containers, func(c ContainerAllocation) bool { return !c.CPUs.IsEmpty() })
}

// releaseWhole is release for such a pod: all comes back with the last container.
func (s kubeletBooks) releaseWhole(pod *PodAllocation) {
	if !pod.stranded() {
		all := pod.CPUs()
		s.shared = s.shared.Or(&all)
	}
	s.strand(pod)
	for b := range pod.Blocks() {
		s.releaseMemory([]MemoryBlock{*b})
	}
	for i := range pod.Containers {
		for j := range pod.Containers[i].Devices {
			s.pools.release(&pod.Containers[i].Devices[j])
		}
	}
}

// strand keeps what is left of a pod whose CPUs do not come back.
func (s kubeletBooks) strand(pod *PodAllocation) {
	if pod.stranded() {
		s.put(&PodAllocation{UID: pod.UID, Whole: &Whole{CPUs: pod.Whole.CPUs}})
	}
}
