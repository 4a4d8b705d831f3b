package memory

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// slowNode is state.NUMANodeState with maps and slices.
type slowNode struct {
	assignments int
	cells       []int
	free        map[string]uint64
	reserved    map[string]uint64
	allocatable map[string]uint64
}

// slow is a simple implementation of the kubelet's memory manager: it has a map of nodes, and tries
// every set of nodes.
type slow struct {
	nodes map[int]*slowNode
	reuse map[hint.Mask]map[string]uint64
}

type slowHint struct {
	mask      hint.Mask
	preferred bool
}

func bitsOf(m hint.Mask) []int { return slices.Collect(m.All()) }

func (s *slow) sum(table func(*slowNode) map[string]uint64, mask hint.Mask, name string) (sum uint64) {
	for _, i := range bitsOf(mask) {
		sum += table(s.nodes[i])[name]
	}
	return sum
}

func free(n *slowNode) map[string]uint64        { return n.free }
func allocatable(n *slowNode) map[string]uint64 { return n.allocatable }

// hints is calculateHints for one of the resources, by the size of the sets.
func (s *slow) hints(needs map[string]uint64) (out []slowHint) {
	least := len(s.nodes)
	var masks []hint.Mask
	for m := hint.Mask(1); m < 1<<len(s.nodes); m++ {
		masks = append(masks, m)
	}
	slices.SortStableFunc(masks, func(a, b hint.Mask) int { return a.Len() - b.Len() })
next:
	for _, mask := range masks {
		for name, n := range needs {
			if s.sum(allocatable, mask, name) < n {
				continue next
			}
		}
		least = min(least, mask.Len())
		bits := bitsOf(mask)
		if len(bits) == 1 && len(s.nodes[bits[0]].cells) > 1 {
			continue
		}
		for _, i := range bits {
			if n := s.nodes[i]; len(bits) > 1 && n.assignments > 0 && (len(n.cells) == 1 || !slices.Equal(n.cells, bits)) {
				continue next
			}
		}
		for name, n := range needs {
			if s.sum(free, mask, name)+s.reuse[mask][name] < n {
				continue next
			}
		}
		out = append(out, slowHint{mask: mask})
	}
	for i := range out {
		out[i].preferred = out[i].mask.Len() == least
	}
	return out
}

// best is findBestHint.
func best(hints []slowHint) (b slowHint) {
	for _, h := range hints {
		switch {
		case b.mask == 0, h.preferred && !b.preferred:
			b = h
		case h.preferred == b.preferred && (h.mask.Len() < b.mask.Len() || h.mask.Len() == b.mask.Len() && h.mask < b.mask):
			b = h
		}
	}
	return b
}

// choose is the first half of Allocate.
func (s *slow) choose(needs map[string]uint64, h hint.Hint) (hint.Mask, error) {
	now := slowHint{h.Mask, h.Preferred}
	if h.Any {
		all := s.hints(needs)
		if len(all) == 0 {
			return 0, ErrNoDefault
		}
		d := best(all)
		if !d.preferred && h.Preferred {
			return 0, ErrDefaultNotPreferred
		}
		now = d
	}
	for name, n := range needs {
		if s.sum(free, now.mask, name) >= n {
			continue
		}
		var wider []slowHint
		for _, w := range s.hints(needs) {
			if w.mask&now.mask == now.mask {
				wider = append(wider, w)
			}
		}
		if len(wider) == 0 {
			return 0, ErrNoExtension
		}
		e := best(wider)
		if !e.preferred && now.preferred {
			return 0, ErrExtensionNotPreferred
		}
		now = e
		break
	}
	bits := bitsOf(now.mask)
	for _, i := range bits {
		if n := s.nodes[i]; n.assignments > 0 && len(bits) > 1 && (len(n.cells) == 1 || !slices.Equal(n.cells, bits)) {
			return 0, ErrGroup
		}
	}
	return now.mask, nil
}

func (s *slow) take(mask hint.Mask, name string, left uint64) {
	for _, i := range bitsOf(mask) {
		n := s.nodes[i]
		n.assignments++
		n.cells = bitsOf(mask)
		part := min(left, n.free[name])
		n.free[name] -= part
		n.reserved[name] += part
		left -= part
	}
}

func (s *slow) release(mask hint.Mask, name string, left uint64) {
	for _, i := range bitsOf(mask) {
		n := s.nodes[i]
		if n.assignments--; n.assignments == 0 {
			n.cells = []int{i}
		}
		part := min(left, n.reserved[name])
		n.free[name] += part
		n.reserved[name] -= part
		left -= part
	}
}

type block struct {
	mask hint.Mask
	name string
	size uint64
}

// TestTwin carries out the same random operations on the book and on slow.
func TestTwin(t *testing.T) {
	ways := map[error]int{}
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 5))
		space, err := hint.NewSpace(topology.NUMASet(1)<<(1+r.IntN(4)) - 1)
		if err != nil {
			t.Fatal(err)
		}
		m, s := random(r, space)
		b := m.NewBook()
		var held []block
		for range 25 {
			needs, want := randomNeeds(r, m)
			var reuse Reuse
			s.reuse = map[hint.Mask]map[string]uint64{}
			if r.IntN(3) == 0 {
				mask := hint.Mask(1 + r.IntN(int(space.All())))
				n := Need{0, uint64(r.IntN(40))}
				reuse.Offer(mask, n)
				s.reuse[mask] = map[string]uint64{m.names[0]: n.Bytes}
			}
			compareHints(t, seed, m, &Query{b, needs, &reuse}, s.hints(want))
			h := hint.Hint{Any: r.IntN(2) == 0, Preferred: r.IntN(2) == 0}
			if !h.Any {
				h.Mask = hint.Mask(1 + r.IntN(int(space.All())))
			}
			mask, err := m.Choose(&Query{b, needs, &reuse}, h)
			wantMask, wantErr := s.choose(want, h)
			if mask != wantMask || !errors.Is(err, wantErr) {
				t.Fatalf("seed %d: hint %+v: got %b, %v, want %b, %v", seed, h, mask, err, wantMask, wantErr)
			}
			ways[wantErr]++
			if err == nil {
				for _, n := range needs {
					m.Assign(b, mask, n, &reuse)
					size := n.Bytes - min(n.Bytes, s.reuse[mask][m.names[n.Kind]])
					s.take(mask, m.names[n.Kind], size)
					held = append(held, block{mask, m.names[n.Kind], size})
				}
			}
			if len(held) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(held))
				k, _ := m.Kind(held[i].name)
				m.Release(b, held[i].mask, Need{k, held[i].size})
				s.release(held[i].mask, held[i].name, held[i].size)
				held = slices.Delete(held, i, i+1)
			}
			compareBooks(t, seed, m, b, s)
		}
	}
	for _, err := range []error{nil, ErrNoDefault, ErrDefaultNotPreferred, ErrNoExtension, ErrExtensionNotPreferred, ErrGroup} {
		if ways[err] < 10 {
			t.Errorf("%v came up %d times: want more", err, ways[err])
		}
	}
}

// random returns a machine with a little memory and one kind of huge pages on all nodes, and the
// same machine as a slow.
func random(r *rand.Rand, space *hint.Space) (*Model, *slow) {
	nodes := make([]Node, space.Len())
	s := &slow{nodes: map[int]*slowNode{}}
	for i := range nodes {
		nodes[i] = Node{Bytes: 60 + uint64(r.IntN(60)), HugePages: []topology.HugePages{{PageBytes: 1, Count: uint64(r.IntN(20))}},
			Reserved: map[string]uint64{Regular: uint64(r.IntN(10))}}
	}
	m := NewModel(space, nodes)
	for i := range nodes {
		n := &slowNode{cells: []int{i}, free: map[string]uint64{}, reserved: map[string]uint64{}, allocatable: map[string]uint64{}}
		huge := nodes[i].HugePages[0].Count
		n.allocatable[HugePages(1)] = huge
		n.allocatable[Regular] = nodes[i].Bytes - nodes[i].Reserved[Regular] - huge
		n.free = maps.Clone(n.allocatable)
		s.nodes[i] = n
	}
	return m, s
}

func randomNeeds(r *rand.Rand, m *Model) (needs []Need, want map[string]uint64) {
	want = map[string]uint64{}
	for k, name := range m.names {
		if name == Regular || r.IntN(3) == 0 {
			n := Need{Kind(k), uint64(r.IntN(30))}
			if name == Regular && r.IntN(3) == 0 {
				n.Bytes = uint64(r.IntN(250))
			}
			needs = append(needs, n)
			want[name] = n.Bytes
		}
	}
	return needs, want
}

func compareHints(t *testing.T, seed uint64, m *Model, q *Query, want []slowHint) {
	t.Helper()
	space := m.space
	full, part := space.NewList(), space.NewList()
	m.Hints(q, hint.Offered, &full)
	m.Hints(q, hint.Preferred, &part)
	offered, preferred := space.NewSet(), space.NewSet()
	for _, h := range want {
		offered.Add(h.mask)
		if h.preferred {
			preferred.Add(h.mask)
		}
	}
	kind := hint.Masks
	if len(want) == 0 {
		kind = hint.NoPreference
	}
	if full.Kind != kind || part.Kind != kind || kind == hint.Masks && (!slices.Equal(full.Offered, offered) ||
		!slices.Equal(full.Preferred, preferred) || !slices.Equal(part.Preferred, preferred)) {
		t.Fatalf("seed %d: needs %v: got %+v and %+v, want %v", seed, q.Needs, full, part, want)
	}
}

func compareBooks(t *testing.T, seed uint64, m *Model, b *Book, s *slow) {
	t.Helper()
	for i := range b.nodes {
		n := s.nodes[i]
		if got := b.nodes[i]; int(got.assignments) != n.assignments || !slices.Equal(bitsOf(got.cells), n.cells) {
			t.Fatalf("seed %d: node %d: got %+v, want %+v", seed, i, got, n)
		}
		for k, name := range m.names {
			if f, u := m.Free(b, Kind(k), i), m.Reserved(b, Kind(k), i); f != n.free[name] || u != n.reserved[name] {
				t.Fatalf("seed %d: node %d, %s: %d free and %d reserved, want %d and %d", seed, i, name, f, u, n.free[name], n.reserved[name])
			}
		}
	}
}

func TestHugePages(t *testing.T) {
	for size, want := range map[uint64]string{2 << 20: "hugepages-2Mi", 1 << 30: "hugepages-1Gi", 64 << 10: "hugepages-64Ki", 16 << 30: "hugepages-16Gi",
		512 << 20: "hugepages-512Mi", 1536 << 10: "hugepages-1536Ki", 1000: "hugepages-1000", 0: "hugepages-0"} {
		if got := HugePages(size); got != want {
			t.Errorf("%d: got %s, want %s", size, got, want)
		}
	}
}

// TestOverflow: sums of uint64 wrap around. So do the kubelet's if more huge pages are reserved
// than there is memory.
func TestOverflow(t *testing.T) {
	space, _ := hint.NewSpace(3)
	m := NewModel(space, []Node{{Bytes: 10, Reserved: map[string]uint64{Regular: 20}}, {Bytes: 10}})
	if got := m.Allocatable(0, 0); got != ^uint64(9) {
		t.Errorf("node 0 has %d bytes", got)
	}
	l := space.NewList()
	m.Hints(&Query{m.NewBook(), []Need{{0, 5}}, &Reuse{}}, hint.Offered, &l)
	if !l.Preferred.Has(1) || !l.Preferred.Has(2) || l.Offered.Has(3) {
		t.Errorf("got %+v: both nodes have enough, together they wrap around to 0", l)
	}
}
