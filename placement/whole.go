package placement

import (
	"iter"
	"slices"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Whole has the resources that a pod gets as a whole, and of which its containers use parts. A
// kubelet with the gate PodLevelResourceManagers and the scope pod allocates spec.resources once
// (admitUsingPodResources of pkg/kubelet/cm/topologymanager/scope_pod.go).
type Whole struct {
	// CPUs are the pod's exclusive CPUs. Containers that ask for exclusive CPUs get some of these
	// for themselves, and all other containers share the rest.
	CPUs topology.CPUSet
	// Memory is the pod's memory. The blocks of its containers are parts of it, and do not count in
	// addition. Nil means that the memory manager has no entry for the pod, which the kubelet
	// distinguishes from an entry without blocks.
	Memory []MemoryBlock
}

// wholeRoom is memory that a Decision reuses for its Whole.
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

// Same reports whether w and o have equal CPUs and memory. nil counts as an empty Whole.
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

// Equal reports whether w and o are both nil, or have equal contents.
func (w *Whole) Equal(o *Whole) bool {
	if w == nil || o == nil {
		return w == o
	}
	return w.CPUs == o.CPUs && (w.Memory == nil) == (o.Memory == nil) && slices.Equal(w.Memory, o.Memory)
}

// whole reports whether the kubelet places the pod by spec.resources: it allocates these amounts to
// the pod as a whole (type Whole).
func (m *Model) whole(r *Request) bool {
	if !r.PodLevel || !m.set.podLevel.managed || m.Decides() {
		return false
	}
	rules := m.rulesFor(r.Rules)
	return rules.Scope == PodScope && rules.Policy != PolicyNone
}

// GivesWhole reports whether the kubelet assigns exclusive CPUs to the pod as a whole, by
// spec.resources.
func (m *Model) GivesWhole(r *Request) bool { return m.whole(r) && m.wholeCPUs(r) > 0 }

// KnowsWholes reports whether the managers can assign resources to whole pods (gate
// PodLevelResourceManagers).
func (m *Model) KnowsWholes() bool { return m.set.podLevel.managed }

// PlacesWholes reports whether the kubelet places pods by spec.resources. After a restart it places
// such pods again (DefectRestartRepeats).
func (m *Model) PlacesWholes() bool {
	return m.whole(&Request{PodLevel: true}) && (m.set.static || m.set.memory)
}

// wholeCPUs returns the number of exclusive CPUs of a pod that is placed by spec.resources
// (podGuaranteedCPUs).
func (m *Model) wholeCPUs(r *Request) int {
	if m.cpus.topology == nil || !m.pins(r) || r.Level.MilliCPU%1000 != 0 {
		return 0
	}
	return int(r.Level.MilliCPU / 1000)
}

// podCPUs returns the number of exclusive CPUs that the kubelet requests from the CPU manager if a
// pod is placed as one unit.
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

// allocateWhole implements AllocatePod of all managers, which do not check whether the pod has an
// allocation already.
func (ad *admission) allocateWhole(h hint.Hint) Detail {
	for c := range ad.d.Containers {
		ad.setHint(c, h)
	}
	for _, m := range ad.managers {
		if ad.meanwhile != nil {
			ad.pass()
		}
		if d := m.allocate(wholePod, h); d != NoDetail {
			return d
		}
	}
	if ad.m.guardRepeats && ad.d.Whole != nil {
		return DefectRestartRepeats
	}
	return NoDetail
}

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

// allocateWhole implements AllocatePod of the static CPU manager.
func (cm *cpuManager) allocateWhole(h hint.Hint) Detail {
	ad := cm.ad
	n := ad.m.wholeCPUs(ad.r)
	switch {
	case n == 0:
		return NoDetail
	case cm.sharesNone(n):
		return EmptySharedPool
	}
	in := cpu.AllocateInput{N: n, Shared: &cm.shared, Reserved: &ad.m.cpus.reserved, Siblings: &ad.m.cpus.siblings, Aligned: !h.Any, NUMA: ad.m.expand(h.Mask)}
	var got topology.CPUSet
	if err := ad.m.cpus.topology.Allocate(&in, &got); err != nil {
		return cpuDetail(err)
	}
	if ad.m.guard {
		if d := cm.guard(&got); d != NoDetail {
			return d
		}
	}
	ad.d.given().CPUs = got
	cm.shared = cm.shared.AndNot(&got)
	return cm.divide(got)
}

// sharesNone implements validatePodScopeResources of the CPU manager. It reports whether some
// container shares the rest of the pod's CPUs although there is no rest.
func (cm *cpuManager) sharesNone(all int) bool {
	ad := cm.ad
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

// leavesNone reports whether the containers with exclusive CPUs or memory leave nothing for the
// containers that share the rest.
func (ad *admission) leavesNone() bool {
	if n := ad.m.wholeCPUs(ad.r); n > 0 && ad.cpus.sharesNone(n) {
		return true
	}
	_, readable := ad.r.Level.asksMemory()
	return ad.m.mem != nil && ad.pins() && readable && ad.memory.sharesNone()
}

// divide gives the containers parts of the pod's CPUs. An init container that is not a sidecar
// may have any CPUs except the CPUs of the sidecars before it.
func (cm *cpuManager) divide(left topology.CPUSet) Detail {
	ad := cm.ad
	for c := range ad.r.Containers {
		kind, mine := ad.r.Containers[c].Kind, &ad.d.Containers[c].CPUs
		n := ad.exclusiveCPUs(c)
		switch {
		case n > 0:
			if err := ad.m.cpus.topology.Take(&left, n, mine); err != nil {
				for i := range ad.d.Containers {
					ad.d.Containers[i].CPUs = topology.CPUSet{} // the kubelet records none of these CPUs
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

// wholeNeeds sets mm.needs to the request of the pod as a whole (getPodRequestedResources).
func (mm *memoryManager) wholeNeeds() Detail {
	ad := mm.ad
	needs := mm.needs[:0]
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
	mm.needs = needs
	return NoDetail
}

// sharesNone implements validatePodScopeResources of the memory manager, which also fails if an
// amount is not a whole number of bytes.
func (mm *memoryManager) sharesNone() bool {
	ad := mm.ad
	for c := range ad.r.Containers {
		if !ad.m.shares(ad.r, c) && ad.r.Containers[c].fractional() {
			return true
		}
	}
	for i := range ad.r.Level.Memory {
		if all := &ad.r.Level.Memory[i]; all.Bytes > 0 && mm.sharesNoneOf(all) {
			return true
		}
	}
	return false
}

func (mm *memoryManager) sharesNoneOf(all *MemoryRequest) bool {
	taken, shared := uint64(0), false
	for c := range mm.ad.r.Containers {
		r := &mm.ad.r.Containers[c]
		switch shares := mm.shares(c); {
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

// shares reports whether container c shares the rest of the pod's memory.
func (mm *memoryManager) shares(c int) bool {
	ad := mm.ad
	return ad.m.shares(ad.r, c) || len(ad.r.Containers[c].Memory) == 0
}

// asksMemory reports whether spec.resources asks for memory, and whether all amounts are whole
// numbers of bytes.
func (r *LevelRequest) asksMemory() (some, readable bool) {
	readable = true
	for i := range r.Memory {
		some, readable = some || r.Memory[i].Bytes > 0, readable && !r.Memory[i].Fraction
	}
	return some, readable
}

// emptyPoolHints implements the part of the memory manager's GetPodTopologyHints that precedes the
// search for memory. done means that no search follows.
func (mm *memoryManager) emptyPoolHints() (done bool) {
	some, readable := mm.ad.r.Level.asksMemory()
	switch {
	case !readable:
		return true
	case !mm.sharesNone():
		return false
	case some:
		mm.ad.list(memory.Regular).Reset(hint.Impossible)
	}
	return true
}

// allocateWhole implements AllocatePod of the static memory manager. If an amount is not a whole
// number of bytes, the memory manager allocates nothing and returns no error.
func (mm *memoryManager) allocateWhole(h hint.Hint) Detail {
	ad := mm.ad
	if _, readable := ad.r.Level.asksMemory(); !readable {
		return NoDetail
	}
	if mm.sharesNone() {
		return EmptySharedPool
	}
	if d := mm.wholeNeeds(); d != NoDetail {
		return d
	}
	if ad.m.guard && ad.m.mem.Underflows(mm.needs) {
		return DefectMemoryUnderflow
	}
	mask, err := ad.m.mem.Choose(mm.newQuery(), h)
	if err != nil {
		return memoryDetail(err)
	}
	if d := mm.guard(mask); d != NoDetail {
		return d
	}
	got := ad.d.given()
	got.Memory = ad.d.room.blocks[:0]
	for _, n := range mm.needs {
		ad.m.mem.Take(mm.book, mask, n)
		got.Memory = append(got.Memory, MemoryBlock{Resource: ad.m.mem.Names()[n.Kind], NUMA: ad.m.expand(mask), Bytes: n.Bytes})
	}
	ad.d.room.blocks = got.Memory
	mm.divide(ad.m.expand(mask))
	return NoDetail
}

// divide gives the containers parts of the pod's memory, as cpuManager.divide does. As in the
// kubelet, all subtractions are unsigned and may wrap around: if an app container requests a kind
// of memory that spec.resources lacks, the containers that share get almost 2^64 bytes of it. The
// requests of sidecars for such a kind are not subtracted.
func (mm *memoryManager) divide(on topology.NUMASet) {
	ad := mm.ad
	left := append(mm.left[:0], ad.d.Whole.Memory...)
	for c := range ad.r.Containers {
		r := &ad.r.Containers[c]
		if mm.shares(c) {
			if r.Kind == Init {
				mm.giveBlocks(c, left)
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
		if mm.shares(c) && ad.r.Containers[c].Kind != Init {
			mm.giveBlocks(c, left)
		}
	}
	mm.left = left
}

func (mm *memoryManager) giveBlocks(c int, blocks []MemoryBlock) {
	for _, b := range blocks {
		if b.Bytes > 0 {
			mm.ad.d.Containers[c].Memory = append(mm.ad.d.Containers[c].Memory, b)
		}
	}
}

// commitWhole implements commit for a pod that is placed by spec.resources. If the pod already has
// an allocation, the former allocation is lost: the kubelet never frees it.
func (b kubeletBooks) commitWhole(d *Decision, l *leaving) {
	old := b.s.pod(d.UID)
	pod := &PodAllocation{UID: d.UID, Whole: new(Whole)}
	if old != nil && old.Whole != nil {
		*pod.Whole = *old.Whole
	}
	given := d.Whole
	if given == nil {
		given = new(Whole)
	}
	l.give(ofCPUs, 0)
	if !given.CPUs.IsEmpty() {
		b.s.shared = b.s.shared.AndNot(&given.CPUs)
		pod.Whole.CPUs = given.CPUs
	}
	l.give(ofMemory, 0)
	if given.Memory != nil {
		for i := range given.Memory {
			given.Memory[i].take(b.s.m, b.s.book)
		}
		pod.Whole.Memory = slices.Clone(given.Memory)
	}
	l.give(ofDevices, 0)
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
	b.s.put(pod)
}

// Blocks returns the blocks that count as the pod's memory: those of Whole or, if Whole has no
// entry for memory, those of the containers.
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

// CPUs returns all exclusive CPUs of the pod: those of Whole or, if Whole has none, those of the
// containers.
func (p *PodAllocation) CPUs() (all topology.CPUSet) {
	if p.Whole != nil && !p.Whole.CPUs.IsEmpty() {
		return p.Whole.CPUs
	}
	for i := range p.Containers {
		all = all.Or(&p.Containers[i].CPUs)
	}
	return all
}

// stranded reports whether Whole has CPUs, but no container has any of them. The kubelet frees the
// CPUs of Whole together with those of the last container (RemoveContainer), so it never frees
// stranded CPUs.
func (p *PodAllocation) stranded() bool {
	return p.Whole != nil && !p.Whole.CPUs.IsEmpty() &&
		!slices.ContainsFunc(p.Containers, func(c ContainerAllocation) bool { return !c.CPUs.IsEmpty() })
}

// strand keeps stranded CPUs allocated after the pod is gone, as the kubelet does.
func (b kubeletBooks) strand(pod *PodAllocation) {
	if pod.stranded() {
		b.s.put(&PodAllocation{UID: pod.UID, Whole: &Whole{CPUs: pod.Whole.CPUs}})
	}
}
