package placement

import (
	"errors"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
)

// memoryManager is the static memory manager (pkg/kubelet/cm/memorymanager/policy_static.go), with
// its data during an admission.
type memoryManager struct {
	ad    *admission
	book  *memory.Book // a copy of State.book
	reuse memory.Reuse
	needs []memory.Need
	query memory.Query
	// left is the part of the pod's memory that its containers have not used yet, if the kubelet
	// places the pod by spec.resources.
	left []MemoryBlock
}

// containerNeeds sets mm.needs to the request of a container.
func (mm *memoryManager) containerNeeds(c int) Detail {
	ad := mm.ad
	needs := mm.needs[:0]
	if ad.m.shares(ad.r, c) {
		mm.needs = needs
		return NoDetail
	}
	if ad.r.Containers[c].fractional() {
		return MemoryNotInteger
	}
	for i := range ad.r.Containers[c].Memory {
		r := &ad.r.Containers[c].Memory[i]
		k, ok := ad.m.mem.Kind(r.Resource)
		if !ok {
			return DefectMissingMemoryKind
		}
		needs = append(needs, memory.Need{Kind: k, Bytes: r.Bytes})
	}
	mm.needs = needs
	return NoDetail
}

// podNeeds sets mm.needs to the request of the pod, with only the kinds that some app container
// asks for.
func (mm *memoryManager) podNeeds() Detail {
	ad := mm.ad
	if ad.whole {
		return mm.wholeNeeds()
	}
	needs := mm.needs[:0]
	for k, name := range ad.m.mem.Names() {
		var sum Peak[uint64]
		byApp := false
		for c := range ad.r.Containers {
			r := &ad.r.Containers[c]
			if bytes, asked := r.memory(name); asked {
				sum.Add(r.Kind, bytes)
				byApp = byApp || r.Kind == App
			}
		}
		if byApp {
			needs = append(needs, memory.Need{Kind: memory.Kind(k), Bytes: sum.Most()})
		}
	}
	mm.needs = needs
	return mm.oddMemory()
}

// oddMemory returns the reason if some amount or kind of memory makes podNeeds fail. The kubelet
// reads all amounts before it looks up any kind.
func (mm *memoryManager) oddMemory() Detail {
	ad := mm.ad
	for c := range ad.r.Containers {
		if ad.r.Containers[c].fractional() {
			return MemoryNotInteger
		}
	}
	for c := range ad.r.Containers {
		r := &ad.r.Containers[c]
		for i := range r.Memory {
			if _, ok := ad.m.mem.Kind(r.Memory[i].Resource); !ok && r.Kind == App {
				return DefectMissingMemoryKind
			}
		}
	}
	return NoDetail
}

// fractional reports whether some amount is not a whole number of bytes.
func (r *ContainerRequest) fractional() bool {
	return slices.ContainsFunc(r.Memory, func(m MemoryRequest) bool { return m.Fraction })
}

func (r *ContainerRequest) memory(name string) (bytes uint64, asked bool) {
	for i := range r.Memory {
		if r.Memory[i].Resource == name {
			return r.Memory[i].Bytes, true
		}
	}
	return 0, false
}

// hints implements GetTopologyHints and GetPodTopologyHints. An amount that is not a whole number
// of bytes gives no hints, and Allocate refuses it.
func (mm *memoryManager) hints(c int, want hint.Want) Detail {
	ad := mm.ad
	if ad.m.mem == nil || !ad.pins() {
		return NoDetail
	}
	if ad.whole && mm.emptyPoolHints() {
		return NoDetail
	}
	d := mm.needsOf(c)
	switch {
	case d == MemoryNotInteger:
		return NoDetail
	case d != NoDetail:
		return d
	case len(mm.needs) == 0:
		return NoDetail
	}
	if held := mm.held(c); held != nil {
		mm.hintsOfBlocks(held.Memory)
		return NoDetail
	}
	if ad.m.mem.Crashes(mm.needs) {
		return DefectMissingMemoryKind
	}
	if ad.m.guard && ad.m.mem.Underflows(mm.needs) {
		return DefectMemoryUnderflow
	}
	ad.m.mem.Hints(mm.newQuery(), want, ad.list(memory.Regular))
	return NoDetail
}

func (mm *memoryManager) newQuery() *memory.Query {
	mm.query = memory.Query{Book: mm.book, Needs: mm.needs, Reuse: &mm.reuse}
	return &mm.query
}

func (mm *memoryManager) needsOf(c int) Detail {
	if c == wholePod {
		return mm.podNeeds()
	}
	return mm.containerNeeds(c)
}

// held returns the allocation whose blocks the kubelet turns into hints: the container's own or,
// for the whole pod, the allocation of the first container that has one. It returns nil if there is
// none.
func (mm *memoryManager) held(c int) *ContainerAllocation {
	ad := mm.ad
	if ad.held == nil {
		return nil
	}
	if c != wholePod {
		if h := ad.heldBy(c); h != nil && h.Memory != nil {
			return h
		}
		return nil
	}
	for c := range ad.r.Containers {
		if h := ad.heldBy(c); h != nil && h.Memory != nil {
			return h
		}
	}
	return nil
}

// hintsOfBlocks implements regenerateHints. If the blocks differ from the request, it adds no list.
func (mm *memoryManager) hintsOfBlocks(blocks []MemoryBlock) {
	ad := mm.ad
	if len(blocks) != len(mm.needs) {
		return
	}
	for _, n := range mm.needs {
		if b := blockOf(blocks, ad.m.mem.Names()[n.Kind]); b == nil || b.Bytes != n.Bytes {
			return
		}
	}
	for i := range blocks {
		l := ad.list(blocks[i].Resource)
		l.Reset(hint.Masks)
		mask := ad.m.compact(blocks[i].NUMA)
		l.Preferred.Add(mask)
		l.Offered.Add(mask)
	}
}

func blockOf(blocks []MemoryBlock, resource string) *MemoryBlock {
	for i := range blocks {
		if blocks[i].Resource == resource {
			return &blocks[i]
		}
	}
	return nil
}

func (mm *memoryManager) allocate(c int, h hint.Hint) Detail {
	ad := mm.ad
	if ad.m.mem == nil || !ad.pins() {
		return NoDetail
	}
	if c == wholePod {
		return mm.allocateWhole(h)
	}
	got := &ad.d.Containers[c]
	if held := mm.held(c); held != nil {
		got.Memory = append(got.Memory, held.Memory...)
		reuseBlocks(ad.m, &mm.reuse, got.Kind, got.Memory)
		return NoDetail
	}
	if d := mm.containerNeeds(c); d != NoDetail {
		return d
	}
	needs := mm.needs
	if len(needs) == 0 && ad.m.set.version >= V137 {
		return NoDetail
	}
	if ad.m.guard && ad.m.mem.Underflows(needs) {
		return DefectMemoryUnderflow
	}
	mask, err := ad.m.mem.Choose(mm.newQuery(), h)
	switch {
	case err != nil && len(needs) == 0:
		return NoMemoryAsked
	case err != nil:
		return memoryDetail(err)
	}
	if d := mm.guard(mask); d != NoDetail {
		return d
	}
	for _, n := range needs {
		ad.m.mem.Assign(mm.book, mask, n, &mm.reuse)
		got.Memory = append(got.Memory, MemoryBlock{Resource: ad.m.mem.Names()[n.Kind], NUMA: ad.m.expand(mask), Bytes: n.Bytes})
	}
	reuseBlocks(ad.m, &mm.reuse, got.Kind, got.Memory)
	shrinkInit(ad.d.Containers, c)
	return NoDetail
}

// guard refuses groups of NUMA nodes that would prevent a restart of the kubelet.
func (mm *memoryManager) guard(mask hint.Mask) Detail {
	switch {
	case !mm.ad.m.guard:
	case memory.Mixes(mm.book, mask):
		return DefectMixedGroups
	case !mm.ad.m.mem.Uniform(mask):
		return DefectUnequalGroup
	}
	return NoDetail
}

// shrinkInit implements updateInitContainersMemoryBlocks. It subtracts the memory that container c
// reuses from the blocks of the regular init containers before it. So the sum of a pod's blocks is
// its allocation.
func shrinkInit(cs []ContainerDecision, c int) {
	for i := range cs[c].Memory {
		left := cs[c].Memory[i].Bytes
		for j := 0; j < c && left > 0; j++ {
			if cs[j].Kind != Init {
				continue
			}
			for k := range cs[j].Memory {
				if b := &cs[j].Memory[k]; b.Resource == cs[c].Memory[i].Resource && b.NUMA == cs[c].Memory[i].NUMA {
					taken := min(left, b.Bytes)
					b.Bytes -= taken
					left -= taken
				}
			}
		}
	}
}

func memoryDetail(err error) Detail {
	switch {
	case errors.Is(err, memory.ErrNoDefault):
		return NoDefaultMemory
	case errors.Is(err, memory.ErrDefaultNotPreferred):
		return DefaultMemoryNotPreferred
	case errors.Is(err, memory.ErrNoExtension):
		return NoMemoryExtension
	case errors.Is(err, memory.ErrExtensionNotPreferred):
		return MemoryExtensionNotPreferred
	case errors.Is(err, memory.ErrGroup):
		return MemoryGroup
	case errors.Is(err, memory.ErrCrash):
		return DefectMissingMemoryKind
	}
	return DefectNoRegularMemory
}
