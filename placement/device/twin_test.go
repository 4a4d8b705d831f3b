package device

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// slow is a simple implementation of the kubelet's device manager: it has sets of names, and tries
// every set of nodes.
type slow struct {
	space   *hint.Space
	devices map[string]Device
	all     bool // hints over all nodes
}

type names map[string]bool

func (s *slow) list(space *hint.Space, available, reusable names, n int) (kind hint.ListKind, offered, preferred hint.Set) {
	offered, preferred = space.NewSet(), space.NewSet()
	var nodes hint.Mask
	aligned := false
	for _, d := range s.devices {
		nodes |= d.Mask
		aligned = aligned || d.HasNodes
	}
	if !aligned {
		return hint.NoPreference, offered, preferred
	}
	if nodes == 0 || s.all {
		nodes = space.All()
	}
	least := nodes.Len()
	var masks []hint.Mask
	for _, mask := range space.BySize() {
		if mask&^nodes != 0 {
			continue
		}
		total := 0
		for _, d := range s.devices {
			if d.Mask&mask != 0 {
				total++
			}
		}
		if total >= n {
			least = min(least, mask.Len())
		}
		if s.serves(mask, available, reusable, n) {
			masks = append(masks, mask)
		}
	}
	for _, mask := range masks {
		offered.Add(mask)
		if mask.Len() == least {
			preferred.Add(mask)
		}
	}
	if len(masks) == 0 {
		kind = hint.Impossible
	}
	return kind, offered, preferred
}

func (s *slow) serves(mask hint.Mask, available, reusable names, n int) bool {
	found := 0
	for id := range reusable {
		switch d := s.devices[id]; {
		case !d.HasTopology:
		case d.Mask&mask == 0:
			return false
		default:
			found++
		}
	}
	for id := range available {
		if s.devices[id].Mask&mask != 0 {
			found++
		}
	}
	return found >= n
}

// take is devicesToAllocate with a plugin that sorts its devices.
func (s *slow) take(inUse, reusable names, n int, h hint.Hint) ([]string, bool) {
	var healthy, taken []string
	aligned := false
	for id, d := range s.devices {
		aligned = aligned || d.HasNodes
		if d.Healthy {
			healthy = append(healthy, id)
		}
	}
	slices.Sort(healthy)
	add := func(from []string) {
		for _, id := range from {
			if len(taken) < n && !slices.Contains(taken, id) {
				taken = append(taken, id)
			}
		}
	}
	add(sortedNames(reusable))
	var free, near []string
	for _, id := range healthy {
		if !inUse[id] && !slices.Contains(taken, id) {
			free = append(free, id)
			if aligned && !h.Any && s.devices[id].Mask&h.Mask != 0 {
				near = append(near, id)
			}
		}
	}
	if len(free) < n-len(taken) {
		return nil, false
	}
	add(near)
	add(free)
	slices.Sort(taken)
	return taken, true
}

func sortedNames(set names) []string {
	var out []string
	for id := range set {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// TestTwin compares hints and choices with those of slow.
func TestTwin(t *testing.T) {
	ways := map[bool]int{}
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 3))
		space, err := hint.NewSpace(topology.NUMASet(1)<<(1+r.IntN(4)) - 1)
		if err != nil {
			t.Fatal(err)
		}
		s := &slow{space: space, devices: map[string]Device{}, all: r.IntN(3) == 0}
		var list []Device
		for i := range r.IntN(9) {
			d := randomDevice(r, space, fmt.Sprintf("d%02d", i*7%10))
			list = append(list, d)
			s.devices[d.ID] = d
		}
		p := NewPool(space, list, Options{AllNodes: s.all})
		inUse, reusable := randomNames(r, s), names{}
		for id := range inUse {
			if r.IntN(4) == 0 {
				reusable[id] = true
			}
		}
		n := r.IntN(6)
		compareHints(t, seed, space, p, s, inUse, reusable, n)
		h := hint.Hint{Any: r.IntN(3) == 0}
		if !h.Any {
			h.Mask = hint.Mask(1 + r.IntN(int(space.All())))
		}
		want, wantOK := s.take(inUse, reusable, n, h)
		out := make(Set, p.Words())
		taking := Taking{N: n, InUse: p.set(inUse), Reusable: p.set(reusable), Hint: h, Prefer: Sorted}
		chance, ok := p.Take(&taking, out)
		if ok != wantOK {
			t.Fatalf("seed %d: got %v, want %v", seed, ok, wantOK)
		}
		ways[wantOK]++
		if got := p.names(out); wantOK && !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
		if want := len(reusable) > n && n > 0; wantOK && chance != want {
			t.Fatalf("seed %d: chance %v, want %v", seed, chance, want)
		}
		chanceOfOthers(t, seed, p, &taking, wantOK)
	}
	if ways[true] < 100 || ways[false] < 100 {
		t.Errorf("enough devices %d times, too few %d times: want more", ways[true], ways[false])
	}
}

// chanceOfOthers: a plugin without a preference gets as many devices, the aligned ones first. The
// result reports whether the choice is random.
func chanceOfOthers(t *testing.T, seed uint64, p *Pool, taking *Taking, wantOK bool) {
	t.Helper()
	sorted, other := make(Set, p.Words()), make(Set, p.Words())
	p.Take(taking, sorted)
	taking.Prefer = None
	chance, ok := p.Take(taking, other)
	if ok != wantOK || sorted.Len() != other.Len() {
		t.Fatalf("seed %d: %d devices, %v: want %d, %v", seed, other.Len(), ok, sorted.Len(), wantOK)
	}
	if !chance && !taking.Hint.Any && wantOK {
		// The choice is certain if all devices are equal, or if all available devices are taken.
		for w := range p.healthy {
			near := p.alignedWord(taking.Hint, w) & p.healthy[w] &^ taking.InUse[w]
			if near&^other[w] != 0 && other.Len() > taking.Reusable.Len() {
				t.Fatalf("seed %d: aligned devices are left over: took %v", seed, p.names(other))
			}
		}
	}
}

func compareHints(t *testing.T, seed uint64, space *hint.Space, p *Pool, s *slow, inUse, reusable names, n int) {
	t.Helper()
	available := names{}
	for id, d := range s.devices {
		if d.Healthy && !inUse[id] {
			available[id] = true
		}
	}
	kind, offered, preferred := s.list(space, available, reusable, n)
	full, part := space.NewList(), space.NewList()
	in := HintInput{N: n, Available: p.set(available), Reusable: p.set(reusable), Want: hint.Offered}
	p.Hints(&in, &full)
	in.Want = hint.Preferred
	p.Hints(&in, &part)
	if full.Kind != kind || !slices.Equal(full.Offered, offered) || !slices.Equal(full.Preferred, preferred) || !slices.Equal(part.Preferred, preferred) {
		t.Fatalf("seed %d: %d devices: got %+v and %+v, want %v %v %v", seed, n, full, part, kind, offered, preferred)
	}
}

func randomDevice(r *rand.Rand, space *hint.Space, id string) Device {
	d := Device{ID: id, Healthy: r.IntN(5) > 0, HasTopology: r.IntN(5) > 0}
	if d.HasTopology && r.IntN(8) > 0 {
		d.HasNodes = true
		d.Mask = 1 << r.IntN(space.Len())
		if r.IntN(4) == 0 {
			d.Mask |= 1 << r.IntN(space.Len())
		}
		if r.IntN(10) == 0 {
			d.Mask = 0 // only nodes that the machine does not have
		}
	}
	return d
}

func randomNames(r *rand.Rand, s *slow) names {
	out := names{}
	for _, id := range sortedNames(func() names {
		all := names{}
		for id := range s.devices {
			all[id] = true
		}
		return all
	}()) {
		if r.IntN(3) == 0 {
			out[id] = true
		}
	}
	return out
}

func (p *Pool) set(ids names) Set {
	s := make(Set, p.Words())
	for id := range ids {
		i, _ := p.Find(id)
		s.Add(i)
	}
	return s
}

func (p *Pool) names(s Set) []string {
	var out []string
	for i := range p.Len() {
		if s.Has(i) {
			out = append(out, p.ID(i))
		}
	}
	return out
}

// TestSameIDTwice: if two devices have the same id, the later one counts, as in the kubelet's map.
func TestSameIDTwice(t *testing.T) {
	space, _ := hint.NewSpace(3)
	p := NewPool(space, []Device{{ID: "a", Healthy: false}, {ID: "b", Healthy: true}, {ID: "a", Healthy: true, Mask: 1, HasTopology: true, HasNodes: true}}, Options{})
	if p.Len() != 2 || p.Healthy().Len() != 2 || !p.Aligned() {
		t.Errorf("%d devices, %d healthy, aligned %v", p.Len(), p.Healthy().Len(), p.Aligned())
	}
}
