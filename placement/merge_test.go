package placement

import (
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// slowHint is a hint in the kubelet's form.
type slowHint struct {
	mask      hint.Mask
	any       bool
	preferred bool
}

// slowMerge is a literal implementation of the kubelet's HintMerger: it compares all combinations
// of one hint from each list.
type slowMerge struct {
	space    *hint.Space
	distance []uint64
	closest  bool
	lists    [][]slowHint
	most     int
	best     *slowHint
}

func slowLists(space *hint.Space, lists []hint.List) [][]slowHint {
	var out [][]slowHint
	for i := range lists {
		for range max(lists[i].Times, 1) {
			var hints []slowHint
			switch lists[i].Kind {
			case hint.NoPreference:
				hints = []slowHint{{any: true, preferred: true}}
			case hint.Impossible:
				hints = []slowHint{{any: true}}
			default:
				for _, m := range space.BySize() {
					if lists[i].Offered.Has(m) {
						hints = append(hints, slowHint{mask: m, preferred: lists[i].Preferred.Has(m)})
					}
				}
			}
			out = append(out, hints)
		}
	}
	return out
}

func (g *slowMerge) run(lists [][]slowHint) slowHint {
	g.lists = lists
	for _, l := range lists {
		least := 0
		for _, h := range l {
			if !h.any && (least == 0 || h.mask.Len() < least) {
				least = h.mask.Len()
			}
		}
		g.most = max(g.most, least)
	}
	g.combine(0, nil)
	if g.best == nil {
		return slowHint{mask: g.space.All()}
	}
	return *g.best
}

func (g *slowMerge) combine(i int, chosen []slowHint) {
	if i == len(g.lists) {
		g.offer(chosen)
		return
	}
	for _, h := range g.lists[i] {
		g.combine(i+1, append(chosen, h))
	}
}

func (g *slowMerge) offer(chosen []slowHint) {
	h := slowHint{mask: g.space.All(), preferred: true}
	first := hint.Mask(0)
	for _, c := range chosen {
		if !c.any {
			if first == 0 {
				first = c.mask
			}
			h.preferred = h.preferred && c.mask == first
			h.mask &= c.mask
		}
		h.preferred = h.preferred && c.preferred
	}
	if h.mask != 0 && (g.best == nil || g.beats(h, *g.best)) {
		g.best = &h
	}
}

// beats is HintMerger.compare.
func (g *slowMerge) beats(h, best slowHint) bool {
	size, old := h.mask.Len(), best.mask.Len()
	switch {
	case h.preferred != best.preferred:
		return h.preferred
	case h.preferred, old > g.most:
		return g.fitter(h.mask, best.mask)
	case old == g.most:
		return size == g.most && g.fitter(h.mask, best.mask)
	case size > g.most:
		return false
	case size != old:
		return size > old
	}
	return g.fitter(h.mask, best.mask)
}

func (g *slowMerge) fitter(a, b hint.Mask) bool {
	if a.Len() != b.Len() {
		return a.Len() < b.Len()
	}
	if g.closest && g.distance[a] != g.distance[b] {
		return g.distance[a] < g.distance[b]
	}
	return a < b
}

func randomList(space *hint.Space, r *rand.Rand) hint.List {
	l := space.NewList()
	l.Reset(hint.Masks)
	switch r.IntN(8) {
	case 0:
		l.Kind = hint.NoPreference
		return l
	case 1:
		l.Kind = hint.Impossible
		return l
	}
	l.Times = 1 + r.IntN(2)
	masks := space.BySize()
	for range 1 + r.IntN(6) {
		m := masks[r.IntN(len(masks))]
		l.Offered.Add(m)
		if r.IntN(3) == 0 {
			l.Preferred.Add(m)
		}
	}
	return l
}

// TestMergeTwin compares the merger with slowMerge.
func TestMergeTwin(t *testing.T) {
	preferred := 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		space, err := hint.NewSpace(topology.NUMASet(1)<<(1+r.IntN(5)) - 1)
		if err != nil {
			t.Fatal(err)
		}
		var lists []hint.List
		for range 1 + r.IntN(4) {
			lists = append(lists, randomList(space, r))
		}
		rules := mergeRules{}
		if r.IntN(2) == 0 {
			rules.distance = make([]uint64, len(space.BySize())+1)
			for i := range rules.distance {
				rules.distance[i] = uint64(r.IntN(3))
			}
		}
		slow := slowMerge{space: space, distance: rules.distance, closest: rules.distance != nil}
		want := slow.run(slowLists(space, lists))
		var g merger
		g.init(space)
		got, ok := g.preferred(lists, rules)
		if !ok {
			got = g.unpreferred(lists, rules)
		}
		if got.Mask != want.mask || got.Preferred != want.preferred {
			t.Fatalf("seed %d: %d nodes, lists %+v: got %b (preferred %v), want %b (%v)", seed, space.Len(), lists, got.Mask, got.Preferred, want.mask, want.preferred)
		}
		if ok {
			preferred++
		}
	}
	if preferred < 500 || preferred > 3500 {
		t.Errorf("%d of 4000 merges were preferred: the generator is one-sided", preferred)
	}
}

// TestSingleNUMANode: masks with several nodes are ignored.
func TestSingleNUMANode(t *testing.T) {
	space, _ := hint.NewSpace(0b11)
	wide, narrow := space.NewList(), space.NewList()
	wide.Preferred.Add(0b11)
	narrow.Preferred.Add(0b11)
	narrow.Preferred.Add(0b10)
	var g merger
	g.init(space)
	if h, ok := g.preferred([]hint.List{wide}, mergeRules{single: true}); ok {
		t.Errorf("two nodes: got %+v, want none", h)
	}
	if h, ok := g.preferred([]hint.List{narrow}, mergeRules{single: true}); !ok || h.Mask != 0b10 {
		t.Errorf("one node: got %+v, %v", h, ok)
	}
}
