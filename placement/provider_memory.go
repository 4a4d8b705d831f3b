package placement

import (
	"errors"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
)

// memoryProvider is the static memory manager (pkg/kubelet/cm/memorymanager/policy_static.go).
type memoryProvider struct{}

// containerNeeds sets t.memory.needs to what a container asks for.
func (t *trial) containerNeeds(c int) Detail {
	needs := t.memory.needs[:0]
	if t.r.Containers[c].fractional() {
		return MemoryNotInteger
	}
	for i := range t.r.Containers[c].Memory {
		r := &t.r.Containers[c].Memory[i]
		k, ok := t.m.mem.Kind(r.Resource)
		if !ok {
			return DefectMissingMemoryKind
		}
		needs = append(needs, memory.Need{Kind: k, Bytes: r.Bytes})
	}
	t.memory.needs = needs
	return NoDetail
}

// podNeeds sets t.memory.needs to what the pod asks for: only kinds that some app container asks for.
func (t *trial) podNeeds() Detail {
	needs := t.memory.needs[:0]
	for k, name := range t.m.mem.Names() {
		var sum podSum[uint64]
		byApp := false
		for c := range t.r.Containers {
			r := &t.r.Containers[c]
			if bytes, asked := r.memory(name); asked {
				sum.add(r.Kind, bytes)
				byApp = byApp || r.Kind == App
			}
		}
		if byApp {
			needs = append(needs, memory.Need{Kind: memory.Kind(k), Bytes: sum.peak()})
		}
	}
	t.memory.needs = needs
	return t.oddMemory()
}

// oddMemory looks for amounts and kinds that podNeeds cannot sum up. The kubelet reads all amounts before it looks up any kind.
func (t *trial) oddMemory() Detail {
	for c := range t.r.Containers {
		if t.r.Containers[c].fractional() {
			return MemoryNotInteger
		}
	}
	for c := range t.r.Containers {
		r := &t.r.Containers[c]
		for i := range r.Memory {
			if _, ok := t.m.mem.Kind(r.Memory[i].Resource); !ok && r.Kind == App {
				return DefectMissingMemoryKind
			}
		}
	}
	return NoDetail
}

// fractional says whether some amount is no whole number of bytes.
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

// hints is GetTopologyHints and GetPodTopologyHints. An amount that is no whole number of bytes gives no hints; Allocate
// refuses it.
func (p memoryProvider) hints(t *trial, c int, want hint.Want) Detail {
	if t.m.mem == nil || !t.pins() {
		return NoDetail
	}
	d := t.needsOf(c)
	switch {
	case d == MemoryNotInteger:
		return NoDetail
	case d != NoDetail:
		return d
	case len(t.memory.needs) == 0:
		return NoDetail
	}
	if held := t.heldMemory(c); held != nil {
		t.hintsOfBlocks(held.Memory)
		return NoDetail
	}
	if t.m.mem.Crashes(t.memory.needs) {
		return DefectMissingMemoryKind
	}
	if t.m.guard && t.m.mem.Underflows(t.memory.needs) {
		return DefectMemoryUnderflow
	}
	t.m.mem.Hints(t.memoryQuery(), want, t.list(memory.Regular))
	return NoDetail
}

func (t *trial) memoryQuery() *memory.Query {
	t.memory.query = memory.Query{Book: t.memory.book, Needs: t.memory.needs, Reuse: &t.memory.reuse}
	return &t.memory.query
}

func (t *trial) needsOf(c int) Detail {
	if c == wholePod {
		return t.podNeeds()
	}
	return t.containerNeeds(c)
}

// heldMemory returns the container whose blocks the kubelet hints at again: for the whole pod the first that has any.
func (t *trial) heldMemory(c int) *ContainerAllocation {
	if t.held == nil {
		return nil
	}
	if c != wholePod {
		if h := t.heldBy(c); h != nil && h.Memory != nil {
			return h
		}
		return nil
	}
	for c := range t.r.Containers {
		if h := t.heldBy(c); h != nil && h.Memory != nil {
			return h
		}
	}
	return nil
}

// hintsOfBlocks is regenerateHints: blocks that differ from what is asked for mean no preference.
func (t *trial) hintsOfBlocks(blocks []MemoryBlock) {
	if len(blocks) != len(t.memory.needs) {
		return
	}
	for _, n := range t.memory.needs {
		if b := blockOf(blocks, t.m.mem.Names()[n.Kind]); b == nil || b.Bytes != n.Bytes {
			return
		}
	}
	for i := range blocks {
		l := t.list(blocks[i].Resource)
		l.Reset(hint.Masks)
		mask := t.m.compact(blocks[i].NUMA)
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

// allocate is Allocate.
func (p memoryProvider) allocate(t *trial, c int, h hint.Hint) Detail {
	if t.m.mem == nil || !t.pins() {
		return NoDetail
	}
	got := &t.d.Containers[c]
	if held := t.heldMemory(c); held != nil {
		got.Memory = append(got.Memory, held.Memory...)
		t.reuseMemory(c, got.Memory)
		return NoDetail
	}
	if d := t.containerNeeds(c); d != NoDetail {
		return d
	}
	needs := t.memory.needs
	if len(needs) == 0 && t.m.set.version >= V137 {
		return NoDetail
	}
	if t.m.guard && t.m.mem.Underflows(needs) {
		return DefectMemoryUnderflow
	}
	mask, err := t.m.mem.Choose(t.memoryQuery(), h)
	if err != nil {
		return memoryDetail(err)
	}
	if d := t.guardMemory(mask); d != NoDetail {
		return d
	}
	for _, n := range needs {
		t.m.mem.Assign(t.memory.book, mask, n, &t.memory.reuse)
		got.Memory = append(got.Memory, MemoryBlock{Resource: t.m.mem.Names()[n.Kind], NUMA: t.m.expand(mask), Bytes: n.Bytes})
	}
	t.reuseMemory(c, got.Memory)
	shrinkInit(t.d.Containers, c)
	return NoDetail
}

// guardMemory refuses groups of nodes with which the kubelet could not restart.
func (t *trial) guardMemory(mask hint.Mask) Detail {
	switch {
	case !t.m.guard:
	case memory.Mixes(t.memory.book, mask):
		return DefectMixedGroups
	case !t.m.mem.Uniform(mask):
		return DefectUnequalGroup
	}
	return NoDetail
}

// reuseMemory is updatePodReusableMemory.
func (t *trial) reuseMemory(c int, blocks []MemoryBlock) {
	t.m.reuseMemory(&t.memory.reuse, t.r.Containers[c].Kind, blocks)
}

func (m *Model) reuseMemory(r *memory.Reuse, kind ContainerKind, blocks []MemoryBlock) {
	for i := range blocks {
		k, ok := m.mem.Kind(blocks[i].Resource)
		if !ok {
			continue
		}
		n, mask := memory.Need{Kind: k, Bytes: blocks[i].Bytes}, m.compact(blocks[i].NUMA)
		if kind == Init {
			r.Offer(mask, n)
		} else {
			r.Spend(mask, n)
		}
	}
}

// shrinkInit is updateInitContainersMemoryBlocks: what container c reuses is taken off the blocks of the regular init
// containers before it, so that the blocks of a pod add up to what it holds.
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
