package plan

import (
	"slices"
	"testing"
)

// TestWishesInEveryOrder: NUMA nodes of 7 and 8 CPUs; the kubelet takes the first one with room.
// Pods of 2 CPUs then share one, pods of 4 do not, in whatever order they are admitted.
func TestWishesInEveryOrder(t *testing.T) {
	m := model(t, twoSockets)
	same := func(mate int) Wish { return Wish{Mate: mate, Required: true} }
	apart := func(mate int) Wish { return Wish{Mate: mate, Apart: true, Required: true} }
	for _, c := range []struct {
		name   string
		nodes  int
		sizes  []int64
		wishes map[int][]Wish
		ticks  bool // created in different seconds
		whole  bool
		used   int // nodes
	}{
		{"nothing asked", 2, []int64{2, 2}, nil, false, true, 1},
		{"the same, as it is anyway", 2, []int64{2, 2}, map[int][]Wish{0: {same(1)}}, false, true, 1},
		{"the same, in different seconds", 2, []int64{2, 2}, map[int][]Wish{1: {same(0)}}, true, true, 1},
		{"the same, which no order gives", 2, []int64{4, 4}, map[int][]Wish{0: {same(1)}}, false, false, 0},
		{"the same, which some order gives", 1, []int64{4, 3, 3}, map[int][]Wish{2: {same(1)}}, false, false, 0},
		{"apart, on one node", 1, []int64{4, 4}, map[int][]Wish{0: {apart(1)}}, false, true, 1},
		{"apart, on two nodes", 2, []int64{2, 2}, map[int][]Wish{0: {apart(1)}}, false, true, 2},
		{"apart, and one node", 1, []int64{2, 2}, map[int][]Wish{0: {apart(1)}}, false, false, 0},
		{"all apart", 3, []int64{2, 2, 2}, map[int][]Wish{0: {apart(1), apart(2)}, 1: {apart(2)}}, false, true, 3},
		{"preferred apart", 2, []int64{2, 2}, map[int][]Wish{1: {{Mate: 0, Apart: true}}}, false, true, 2},
		{"preferred apart, and one node", 1, []int64{2, 2}, map[int][]Wish{1: {{Mate: 0, Apart: true}}}, false, true, 1},
		{"preferred the same, in vain", 2, []int64{4, 4}, map[int][]Wish{1: {{Mate: 0}}}, false, true, 1},
		{"nothing is pinned", 2, []int64{0, 0}, map[int][]Wish{1: {same(0)}}, false, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Gang{Members: members(c.sizes...), Minimum: len(c.sizes)}
			for i := range g.Members {
				g.Members[i].Beside = c.wishes[i]
				if c.ticks {
					g.Members[i].Candidate.Created += int64(i)
				}
				if c.sizes[i] == 0 {
					g.Members[i].Candidate = nil
				}
			}
			f := newField(t, m, c.nodes)
			p := Make(&g, f)
			var used []int
			for _, at := range p.Places {
				if !slices.Contains(used, at.Node) {
					used = append(used, at.Node)
				}
			}
			if p.Whole != c.whole || c.whole && len(used) != c.used {
				t.Fatalf("whole %t on nodes %v: want %t on %d; %+v", p.Whole, used, c.whole, c.used, p.Places)
			}
			if p.Whole {
				if err := f.reserve(&p, &g); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
