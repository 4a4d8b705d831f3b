package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/placement"
)

// crowd is a field with pods of lower priority.
type crowd struct {
	*field
	away []bool
}

func (c *crowd) Evict(i int)   { c.away[i] = true }
func (c *crowd) Restore(i int) { c.away[i] = false }

// occupied returns nodes with pods of these sizes. A pod that no node admits is left out. Pods with
// the same gang number are one victim, except for number 0.
func occupied(t testing.TB, m *placement.Model, nodes int, sizes []int64, gangs []int, priorities []int32) (*crowd, *Removal) {
	f := newField(t, m, nodes)
	r := &Removal{}
	of := map[int]int{}
	for i, size := range sizes {
		pod := member(fmt.Sprint("low", i), 0, size, 1)
		pod.Candidate.Loose = true
		for node, account := range f.accounts {
			var d placement.Decision
			if a := account.Reserve(pod.Candidate, &d); !a.OK() {
				continue
			}
			at, known := of[gangs[i]]
			if !known || gangs[i] == 0 {
				at = len(r.Victims)
				of[gangs[i]] = at
				r.Victims = append(r.Victims, Victim{Priority: priorities[i], Started: int64(i)})
			}
			r.Victims[at].Pods = append(r.Victims[at].Pods, Occupant{Node: node, Pod: suppose.Pod{UID: pod.Candidate.Request.UID}})
			break
		}
	}
	return &crowd{f, make([]bool, len(r.Victims))}, r
}

func TestEvict(t *testing.T) {
	m := model(t, twoSockets) // its NUMA nodes have 7 and 8 CPUs
	for _, c := range []struct {
		name       string
		nodes      int
		low        []int64
		gangs      []int
		priorities []int32
		leaving    []int
		gang       Gang
		fits       bool
		victims    []int
	}{
		{"nobody has to go", 1, []int64{4}, []int{0}, []int32{1}, nil, Gang{Members: members(8), Minimum: 1}, true, nil},
		{"one has to go", 1, []int64{8, 7}, []int{0, 0}, []int32{1, 1}, nil, Gang{Members: members(7), Minimum: 1}, true, []int{1}},
		{"the lower priority goes", 2, []int64{8, 7, 8, 7}, []int{0, 0, 0, 0}, []int32{5, 4, 3, 4}, nil, Gang{Members: members(8), Minimum: 1}, true, []int{2}},
		{"nobody for a part", 1, []int64{8, 7}, []int{0, 0}, []int32{1, 1}, nil, Gang{Members: members(8, 8), Minimum: 2}, false, nil},
		{"nobody for what never fits", 2, []int64{8}, []int{0}, []int32{1}, nil, Gang{Members: members(9), Minimum: 1}, false, nil},
		{"those who leave cost nothing", 1, []int64{8, 7}, []int{0, 0}, []int32{1, 9}, []int{0}, Gang{Members: members(8), Minimum: 1}, true, nil},
		{"a gang goes whole", 2, []int64{8, 7, 8, 7}, []int{1, 0, 1, 0}, []int32{1, 2, 1, 2}, nil, Gang{Members: members(8), Minimum: 1}, true, []int{0}},
		{"one pod rather than a gang", 2, []int64{8, 8, 7, 7}, []int{1, 1, 0, 1}, []int32{1, 1, 1, 1}, nil, Gang{Members: members(7), Minimum: 1}, true, []int{1}},
		{"the minimum is enough", 1, []int64{8, 7}, []int{0, 0}, []int32{1, 2}, nil, Gang{Members: members(8, 8, 8), Minimum: 1}, true, []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, r := occupied(t, m, c.nodes, c.low, c.gangs, c.priorities)
			for _, i := range c.leaving {
				r.Victims[i].Leaving = true
			}
			got, ok := Evict(&c.gang, f, r, nil)
			if ok != c.fits || !slices.Equal(got.Victims, c.victims) {
				t.Errorf("%v, %t, want %v, %t; victims %+v", got.Victims, ok, c.victims, c.fits, r.Victims)
			}
			if ok && len(got.Places) < c.gang.Minimum {
				t.Errorf("%d places, want %d", len(got.Places), c.gang.Minimum)
			}
			if slices.Contains(f.away, true) || slices.ContainsFunc(f.on, func(n int) bool { return n != 0 }) {
				t.Errorf("the field was not left as it was: %v, %v", f.away, f.on)
			}
		})
	}
}

// TestSurplusGoesBeforeItsGang: three pods are a gang with a minimum of one. Its surplus is evicted
// pod by pod, and the last pod only with the surplus.
func TestSurplusGoesBeforeItsGang(t *testing.T) {
	for name, c := range map[string]struct {
		low     []int64 // the first three are the gang; the first of them is its minimum
		gang    Gang
		victims []int
	}{
		"one of the surplus":    {[]int64{7, 8, 7}, Gang{Members: members(7), Minimum: 1}, []int{2}},
		"all of it":             {[]int64{7, 8, 7}, Gang{Members: members(7, 8), Minimum: 2}, []int{1, 2}},
		"the whole gang":        {[]int64{7, 8, 7}, Gang{Members: members(7, 7, 7), Minimum: 3}, []int{0, 1, 2}},
		"the gang for its last": {[]int64{8, 7, 7}, Gang{Members: members(8), Minimum: 1}, []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			f, r := occupied(t, model(t, twoSockets), 2, append(c.low, 8), []int{0, 0, 0, 0}, []int32{1, 1, 1, 9})
			r.Victims[0].After, r.Victims[0].Started = []int{1, 2}, 9 // the youngest
			got, ok := Evict(&c.gang, f, r, nil)
			if !ok || !slices.Equal(got.Victims, c.victims) {
				t.Errorf("%v, %t; want %v", got.Victims, ok, c.victims)
			}
			if slices.Contains(f.away, true) {
				t.Errorf("the field was not left as it was: %v", f.away)
			}
		})
	}
}

// TestBudgetsAreSpared: if one of two pods suffices, the pod whose budget allows it is evicted.
func TestBudgetsAreSpared(t *testing.T) {
	f, r := occupied(t, model(t, twoSockets), 1, []int64{7, 7}, []int{0, 0}, []int32{1, 2})
	r.Victims[0].Pods[0].Budgets, r.Allowed = []int{0}, []int{0}
	g := Gang{Members: members(7), Minimum: 1}
	if got, ok := Evict(&g, f, r, nil); !ok || !slices.Equal(got.Victims, []int{1}) {
		t.Errorf("%v, %t: want the one of higher priority, which violates nothing", got.Victims, ok)
	}
	g = Gang{Members: members(7, 7), Minimum: 2}
	if got, ok := Evict(&g, f, r, nil); !ok || r.Cost(got.Victims).Violations != 1 {
		t.Errorf("%v, %t: want both where nothing else helps", got.Victims, ok)
	}
}

// TestEvictIsBounded: a search that is cut off asks no more nodes, and finds enough victims or
// none.
func TestEvictIsBounded(t *testing.T) {
	m := model(t, twoSockets)
	full := func() (*crowd, *Removal) {
		sizes := slices.Repeat([]int64{3, 4}, 2*12)
		return occupied(t, m, 12, sizes, make([]int, len(sizes)), make([]int32, len(sizes)))
	}
	g := Gang{Members: members(slices.Repeat([]int64{5}, 10)...), Minimum: 10}
	f, r := full()
	whole, ok := Evict(&g, f, r, nil)
	if !ok || whole.Cut || whole.Asked == 0 {
		t.Fatalf("%d victims after %d questions, cut off %t: want all, and the search done", len(whole.Victims), whole.Asked, whole.Cut)
	}
	t.Logf("%d victims after %d questions", len(whole.Victims), whole.Asked)
	// One call of Nodes may exceed the limit. Its cost is that of 12 nodes.
	last, none := len(r.Victims)+1, 0
	for _, limit := range []int{1, 20, 40, 80, 160, whole.Asked / 2, whole.Asked + 1} {
		f, r := full()
		got, ok := evictAsking(&g, f, r, limit, nil)
		if got.Asked > limit+12 || got.Cut != (got.Asked >= limit) {
			t.Errorf("at most %d: asked %d times, cut off %t", limit, got.Asked, got.Cut)
		}
		if slices.Contains(f.away, true) || slices.Max(f.on) > 0 {
			t.Errorf("at most %d: the crowd was not left as it was", limit)
		}
		if !ok {
			none++
			continue
		}
		if !fitsWithout(t, &g, f, r, got.Victims) {
			t.Errorf("at most %d: without %v the gang does not fit", limit, got.Victims)
		}
		if len(got.Victims) > last {
			t.Errorf("at most %d: %d victims, and %d with less work", limit, len(got.Victims), last)
		}
		last = len(got.Victims)
	}
	if none == 0 || last != len(whole.Victims) {
		t.Errorf("%d searches found nobody, the last one %d victims, want %d", none, last, len(whole.Victims))
	}
}

// BenchmarkEvict searches victims for a gang of 64 on 200 full nodes, and reports how often nodes
// are asked.
func BenchmarkEvict(b *testing.B) {
	m := model(b, twoSockets)
	sizes := slices.Repeat([]int64{3, 4}, 2*200)
	f, r := occupied(b, m, 200, sizes, make([]int, len(sizes)), make([]int32, len(sizes)))
	g := Gang{Members: members(slices.Repeat([]int64{5}, 64)...), Minimum: 64}
	asked := 0
	for b.Loop() {
		found, ok := Evict(&g, f, r, nil)
		if !ok {
			b.Fatal("no victims")
		}
		asked += found.Asked
	}
	b.ReportMetric(float64(asked)/float64(b.N), "questions/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(asked), "ns/question")
}

// TestEvictAgreesWithTwin compares with trying every set of victims.
func TestEvictAgreesWithTwin(t *testing.T) {
	m := model(t, twoSockets)
	rng := rand.New(rand.NewPCG(14, 5))
	free, equal, dearer, missed, none := 0, 0, 0, 0, 0
	for round := range 250 {
		nodes := 1 + rng.IntN(3)
		var low []int64
		var gangs []int
		var priorities []int32
		for range 3 + rng.IntN(3*nodes) {
			low, gangs, priorities = append(low, 4+rng.Int64N(5)), append(gangs, max(0, rng.IntN(5)-2)), append(priorities, rng.Int32N(3))
		}
		f, r := occupied(t, m, nodes, low, gangs, priorities)
		r.Allowed = []int{rng.IntN(2)}
		for i := range r.Victims {
			if rng.IntN(3) == 0 {
				r.Victims[i].Pods[0].Budgets = []int{0}
			}
		}
		var sizes []int64
		for range 1 + rng.IntN(4) {
			sizes = append(sizes, 3+rng.Int64N(6))
		}
		g := Gang{Members: members(sizes...), Minimum: 1 + rng.IntN(len(sizes))}
		for i := range g.Members {
			g.Members[i].Candidate.Created += int64(i)
		}
		got, ok := Evict(&g, f, r, nil)
		if ok && !fitsWithout(t, &g, f, r, got.Victims) {
			t.Errorf("round %d: without %v the gang does not fit", round, got.Victims)
		}
		for i := range got.Victims {
			if rest := slices.Delete(slices.Clone(got.Victims), i, i+1); fitsWithout(t, &g, f, r, rest) && fitsOn(&g, f, r, rest, got.Places) {
				t.Errorf("round %d: %v are evicted, and %v would do on the same nodes", round, got.Victims, rest)
			}
		}
		best, possible := cheapest(t, &g, f, r)
		switch {
		case !possible && !ok:
			none++
		case !possible:
			t.Errorf("round %d: %v, and no set is enough", round, got.Victims)
		case !ok:
			missed++
		case r.Cost(got.Victims).Compare(best) < 0:
			t.Errorf("round %d: cheaper than every set", round)
		case best == (Cost{}):
			free++
		case r.Cost(got.Victims) == best:
			equal++
		default:
			dearer++
		}
	}
	t.Logf("%d without victims, %d as cheap as any set, %d dearer, %d missed, %d impossible", free, equal, dearer, missed, none)
	if missed > 2 || equal < 3*dearer {
		t.Errorf("%d as cheap as any set, %d dearer, %d missed", equal, dearer, missed)
	}
}

// without returns a field without the pods in set.
func without(f *crowd, r *Removal, set []int) *clearing {
	c := newClearing(f, r)
	for _, i := range set {
		c.evict(i)
	}
	return c
}

func fitsWithout(t testing.TB, g *Gang, f *crowd, r *Removal, set []int) bool {
	t.Helper()
	c := without(f, r, set)
	defer c.restoreAll()
	_, ok := c.try(g)
	return ok
}

// fitsOn is fitsWithout on only those nodes that a plan uses.
func fitsOn(g *Gang, f *crowd, r *Removal, set []int, places []Place) bool {
	c := without(f, r, set)
	defer c.restoreAll()
	c.only = map[int][]int{}
	for i := range g.Members {
		kind := g.Members[i].Kind
		if c.only[kind] != nil {
			continue
		}
		for node := range f.accounts {
			if slices.ContainsFunc(places, func(p Place) bool { return p.Node == node }) {
				c.only[kind] = append(c.only[kind], node)
			}
		}
	}
	_, ok := c.try(g)
	return ok
}

// cheapest is the slow twin of Evict.
func cheapest(t testing.TB, g *Gang, f *crowd, r *Removal) (best Cost, possible bool) {
	for bits := range 1 << len(r.Victims) {
		var set []int
		for i := range r.Victims {
			if bits&(1<<i) != 0 {
				set = append(set, i)
			}
		}
		if cost := r.Cost(set); (!possible || cost.Compare(best) < 0) && fitsWithout(t, g, f, r, set) {
			best, possible = cost, true
		}
	}
	return best, possible
}
