package tables

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// kubeMachine is the memory manager's state.NUMANodeMap.
type kubeMachine map[topology.NUMAID]struct {
	NumberOfAssignments int
	MemoryMap           map[string]struct{ Allocatable, Reserved, Free uint64 }
	Cells               []topology.NUMAID
}

// kubeReusable has the amounts that a pod may reuse, by mask in binary digits and by resource.
type kubeReusable map[string]map[string]uint64

// books has the engine's state of the memory, which is set to a kubelet's state.
type books struct {
	space *hint.Space
	model *memory.Model
	book  *memory.Book
}

// newBooks makes nodes with exactly the machine's amounts for containers. It leaves out tests with
// a node without ordinary memory, because no such machine exists.
func newBooks(k kubeMachine) (*books, error) {
	var ids []topology.NUMAID
	for id := range k {
		ids = append(ids, id)
	}
	s, err := spaceOf(ids)
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	var nodes []memory.Node
	for _, id := range ids {
		if _, ok := k[id].MemoryMap[memory.Regular]; !ok {
			return nil, errLeftOut
		}
		n := memory.Node{Reserved: map[string]uint64{}}
		for name, t := range k[id].MemoryMap {
			if name == memory.Regular {
				n.Bytes += t.Allocatable
				continue
			}
			page, err := resource.ParseQuantity(name[len("hugepages-"):])
			if err != nil {
				return nil, err
			}
			size := uint64(page.Value())
			count := (t.Allocatable + size - 1) / size
			n.HugePages = append(n.HugePages, topology.HugePages{PageBytes: size, Count: count})
			n.Bytes += count * size
			n.Reserved[name] = count*size - t.Allocatable
		}
		nodes = append(nodes, n)
	}
	b := &books{space: s, model: memory.NewModel(s, nodes)}
	b.book = b.model.NewBook()
	return b, b.fill(k)
}

func (b *books) fill(k kubeMachine) error {
	for id, n := range k {
		pos, _ := b.space.Position(id)
		b.book.SetGroup(pos, n.NumberOfAssignments, b.space.Compact(topology.NewNUMASet(n.Cells...)))
		for name, t := range n.MemoryMap {
			kind, ok := b.model.Kind(name)
			if !ok {
				return fmt.Errorf("no kind %s", name)
			}
			b.model.SetAmounts(b.book, kind, pos, memory.Amounts{Reserved: t.Reserved, Free: t.Free})
		}
	}
	return nil
}

// is compares the books with the kubelet's state.
func (b *books) is(k kubeMachine) error {
	for id, n := range k {
		pos, _ := b.space.Position(id)
		assignments, cells := b.book.Group(pos)
		if want := topology.NewNUMASet(n.Cells...); assignments != n.NumberOfAssignments || b.space.Expand(cells) != want {
			return fmt.Errorf("node %d: want %d assignments in group %s, got %d in %s", id, n.NumberOfAssignments, want, assignments, b.space.Expand(cells))
		}
		for name, t := range n.MemoryMap {
			kind, _ := b.model.Kind(name)
			if r, f := b.model.Reserved(b.book, kind, pos), b.model.Free(b.book, kind, pos); r != t.Reserved || f != t.Free {
				return fmt.Errorf("node %d: %s: want %d reserved and %d free, got %d and %d", id, name, t.Reserved, t.Free, r, f)
			}
		}
	}
	return nil
}

func (b *books) needs(requested map[string]uint64) ([]memory.Need, error) {
	var out []memory.Need
	for k, name := range b.model.Names() {
		if bytes, ok := requested[name]; ok {
			out = append(out, memory.Need{Kind: memory.Kind(k), Bytes: bytes})
		}
	}
	if len(out) != len(requested) {
		return nil, errLeftOut // the machine lacks this kind of memory: the kubelet would crash
	}
	return out, nil
}

func (b *books) reuse(k kubeReusable) *memory.Reuse {
	r := &memory.Reuse{}
	for digits, amounts := range k {
		var set topology.NUMASet
		for i, d := range digits {
			if d == '1' {
				set = set.With(topology.NUMAID(len(digits) - 1 - i))
			}
		}
		for name, bytes := range amounts {
			if kind, ok := b.model.Kind(name); ok {
				r.Offer(b.space.Compact(set), memory.Need{Kind: kind, Bytes: bytes})
			}
		}
	}
	return r
}

type memoryIn struct {
	Machine   kubeMachine
	Reusable  kubeReusable
	Requested map[string]uint64
	Hint      kubeHint
}

func (in *memoryIn) open() (*books, []memory.Need, error) {
	b, err := newBooks(in.Machine)
	if err != nil {
		return nil, nil, err
	}
	needs, err := b.needs(in.Requested)
	return b, needs, err
}

func memoryHints(in *memoryIn, out *map[string][]kubeHint) error {
	b, needs, err := in.open()
	if err != nil {
		return err
	}
	l := b.space.NewList()
	b.model.Hints(&memory.Query{Book: b.book, Needs: needs, Reuse: b.reuse(in.Reusable)}, hint.Offered, &l)
	if len(*out) == 0 {
		return sameHints(b.space, nil, &l)
	}
	for name, want := range *out {
		if err := sameHints(b.space, want, &l); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

type kubeBlock struct {
	NUMAAffinity []topology.NUMAID
	Type         string
	Size         uint64
}

type allocateMemoryOut struct {
	Machine kubeMachine
	Blocks  []kubeBlock
	Error   string
}

func allocateMemory(in *memoryIn, out *allocateMemoryOut) error {
	b, needs, err := in.open()
	if err != nil {
		return err
	}
	reuse := b.reuse(in.Reusable)
	mask, err := b.model.Choose(&memory.Query{Book: b.book, Needs: needs, Reuse: reuse}, in.Hint.in(b.space))
	if e := same(out.Error, err); e != nil || err != nil {
		return e
	}
	for _, block := range out.Blocks {
		if want := topology.NewNUMASet(block.NUMAAffinity...); b.space.Expand(mask) != want {
			return fmt.Errorf("want nodes %s, got %s", want, b.space.Expand(mask))
		}
	}
	for _, n := range needs {
		b.model.Assign(b.book, mask, n, reuse)
	}
	return b.is(out.Machine)
}

type releaseMemoryIn struct {
	Machine kubeMachine
	Blocks  []kubeBlock
}

func releaseMemory(in *releaseMemoryIn, out *allocateMemoryOut) error {
	b, err := newBooks(in.Machine)
	if err != nil {
		return err
	}
	for _, block := range in.Blocks {
		kind, ok := b.model.Kind(block.Type)
		if !ok {
			return errLeftOut
		}
		b.model.Release(b.book, b.space.Compact(topology.NewNUMASet(block.NUMAAffinity...)), memory.Need{Kind: kind, Bytes: block.Size})
	}
	return b.is(out.Machine)
}
