package placement

import (
	"errors"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
)

// memoryProvider is the static memory manager (pkg/kubelet/cm/memorymanager/policy_static.go).
type memoryProvider struct{}

// containerNeeds sets ad.memory.needs to the request of a container.
func (ad *admission) containerNeeds(c int) Detail {
	needs := ad.memory.needs[:0]
	if ad.m.shares(ad.r, c) {
		ad.memory.needs = needs
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
	ad.memory.needs = needs
	return NoDetail
}

// podNeeds sets ad.memory.needs to the request of the pod, with only the kinds that some app
// container asks for.
func (ad *admission) podNeeds() Detail {
	if ad.whole {
		return ad.wholeNeeds()
	}
	needs := ad.memory.needs[:0]
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
	ad.memory.needs = needs
	return ad.oddMemory()
}

// oddMemory returns the reason if some amount or kind of memory makes podNeeds fail. The kubelet
// reads all amounts before it looks up any kind.
func (ad *admission) oddMemory() Detail {
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
func (p memoryProvider) hints(ad *admission, c int, want hint.Want) Detail {
	if ad.m.mem == nil || !ad.pins() {
		return NoDetail
	}
	if ad.whole && ad.emptyPoolHints() {
		return NoDetail
	}
	d := ad.needsOf(c)
	switch {
	case d == MemoryNotInteger:
		return NoDetail
	case d != NoDetail:
		return d
	case len(ad.memory.needs) == 0:
		return NoDetail
	}
	if held := ad.heldMemory(c); held != nil {
		ad.hintsOfBlocks(held.Memory)
		return NoDetail
	}
	if ad.m.mem.Crashes(ad.memory.needs) {
		return DefectMissingMemoryKind
	}
	if ad.m.guard && ad.m.mem.Underflows(ad.memory.needs) {
		return DefectMemoryUnderflow
	}
	ad.m.mem.Hints(ad.memoryQuery(), want, ad.list(memory.Regular))
	return NoDetail
}

func (ad *admission) memoryQuery() *memory.Query {
	ad.memory.query = memory.Query{Book: ad.memory.book, Needs: ad.memory.needs, Reuse: &ad.memory.reuse}
	return &ad.memory.query
}

func (ad *admission) needsOf(c int) Detail {
	if c == wholePod {
		return ad.podNeeds()
	}
	return ad.containerNeeds(c)
}

// heldMemory returns the container whose existing blocks the kubelet turns into hints. For the
// whole pod this is the first container with blocks.
func (ad *admission) heldMemory(c int) *ContainerAllocation {
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
func (ad *admission) hintsOfBlocks(blocks []MemoryBlock) {
	if len(blocks) != len(ad.memory.needs) {
		return
	}
	for _, n := range ad.memory.needs {
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

// allocate implements Allocate.
func (p memoryProvider) allocate(ad *admission, c int, h hint.Hint) Detail {
	if ad.m.mem == nil || !ad.pins() {
		return NoDetail
	}
	if c == wholePod {
		return ad.allocateWholeMemory(h)
	}
	got := &ad.d.Containers[c]
	if held := ad.heldMemory(c); held != nil {
		got.Memory = append(got.Memory, held.Memory...)
		ad.m.reuseBlocks(&ad.memory.reuse, got.Kind, got.Memory)
		return NoDetail
	}
	if d := ad.containerNeeds(c); d != NoDetail {
		return d
	}
	needs := ad.memory.needs
	if len(needs) == 0 && ad.m.set.version >= V137 {
		return NoDetail
	}
	if ad.m.guard && ad.m.mem.Underflows(needs) {
		return DefectMemoryUnderflow
	}
	mask, err := ad.m.mem.Choose(ad.memoryQuery(), h)
	switch {
	case err != nil && len(needs) == 0:
		return NoMemoryAsked
	case err != nil:
		return memoryDetail(err)
	}
	if d := ad.guardMemory(mask); d != NoDetail {
		return d
	}
	for _, n := range needs {
		ad.m.mem.Assign(ad.memory.book, mask, n, &ad.memory.reuse)
		got.Memory = append(got.Memory, MemoryBlock{Resource: ad.m.mem.Names()[n.Kind], NUMA: ad.m.expand(mask), Bytes: n.Bytes})
	}
	ad.m.reuseBlocks(&ad.memory.reuse, got.Kind, got.Memory)
	shrinkInit(ad.d.Containers, c)
	return NoDetail
}

// guardMemory refuses groups of NUMA nodes that would prevent a restart of the kubelet.
func (ad *admission) guardMemory(mask hint.Mask) Detail {
	switch {
	case !ad.m.guard:
	case memory.Mixes(ad.memory.book, mask):
		return DefectMixedGroups
	case !ad.m.mem.Uniform(mask):
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
