package hint

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/topology"
)

// TestSpace compares positions and ids, dense and with gaps, with a bit-by-bit computation.
func TestSpace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var nodes topology.NUMASet
		for range 1 + r.IntN(8) {
			nodes = nodes.With(topology.NUMAID(r.IntN(10 + r.IntN(54))))
		}
		s, err := NewSpace(nodes)
		if err != nil {
			t.Fatal(err)
		}
		ids := slices.Collect(nodes.All())
		if s.Len() != len(ids) || s.Expand(s.All()) != nodes || s.Compact(nodes) != s.All() {
			t.Fatalf("%s: %d nodes, all %b", nodes, s.Len(), s.All())
		}
		for i, id := range ids {
			if p, ok := s.Position(id); !ok || p != i || s.ID(i) != id {
				t.Fatalf("%s: node %d at %d", nodes, id, p)
			}
		}
		m := Mask(r.IntN(int(s.All()) + 1))
		var want topology.NUMASet
		for i := range m.All() {
			want = want.With(ids[i])
		}
		if s.Expand(m) != want || s.Compact(want) != m || s.Compact(want|1<<63&^nodes) != m {
			t.Fatalf("%s: mask %b is %s, want %s", nodes, m, s.Expand(m), want)
		}
	}
}

// TestOrder: masks come by size, then by number, each once.
func TestOrder(t *testing.T) {
	s, _ := NewSpace(0b101101)
	seen := s.NewSet()
	total := 0
	for k := -1; k <= 6; k++ {
		masks := s.OfSize(k)
		total += len(masks)
		if !slices.IsSorted(masks) {
			t.Errorf("size %d: %v is not ascending", k, masks)
		}
		for _, m := range masks {
			if m.Len() != k || seen.Has(m) {
				t.Errorf("mask %b among those of size %d", m, k)
			}
			seen.Add(m)
		}
	}
	if total != 16 || len(s.BySize()) != 15 || s.BySize()[0] != 1 || s.BySize()[14] != s.All() {
		t.Errorf("%d masks, %v", total, s.BySize())
	}
	if seen.Len() != 16 || seen.IsEmpty() || !s.NewSet().IsEmpty() {
		t.Errorf("%d of 16 masks seen", seen.Len())
	}
}

func TestSpaceLimits(t *testing.T) {
	for nodes, ok := range map[topology.NUMASet]bool{0: false, 1: true, 1 << 63: true, 1<<16 - 1: true, 1<<17 - 1: false, ^topology.NUMASet(0): false} {
		if _, err := NewSpace(nodes); (err == nil) != ok {
			t.Errorf("%d nodes: %v", nodes.Len(), err)
		}
	}
	s, _ := NewSpace(1<<16 - 1)
	if s.Words() != 1024 || len(s.BySize()) != 1<<16-1 {
		t.Errorf("%d words", s.Words())
	}
}
