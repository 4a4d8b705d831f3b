package rank

import (
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// machine has four NUMA nodes of eight CPUs, two of which are close to each other in each package.
func machine(t testing.TB) *topology.Machine {
	t.Helper()
	m := shapes.Machine("package:2 numa:2 core:4 pu:2 mem:16Gi dist:10,12,21")
	return m
}

func defaults() Scoring {
	var s Scoring
	s.FillIn()
	return s
}

// offer returns a certain offer on NUMA node 0 of a strict kubelet, with all CPUs free.
func offer(t testing.TB, change func(*Offer)) *Offer {
	m := machine(t)
	o := &Offer{Spare: ledger.Spare{Reach: topology.NewNUMASet(0), CPUs: m.Online, Strictness: placement.SingleNUMANode}, Certain: true, Asked: 4, Machine: m}
	if change != nil {
		change(o)
	}
	return o
}

// take removes CPUs of NUMA node 0 from the offer.
func take(o *Offer, list string) {
	cpus := shapes.CPUs(list)
	o.CPUs = o.CPUs.AndNot(&cpus)
}

// TestWhatComesFirst has offers in the order of the default scoring, each better than the next.
func TestWhatComesFirst(t *testing.T) {
	used := func(o *Offer) { take(o, "0-1") }
	offers := []struct {
		name string
		tier bool // its tier differs from that of the offer before
		o    *Offer
	}{
		{"the smallest block", false, offer(t, used)},
		{"a larger block", false, offer(t, nil)},
		{"not certain", false, offer(t, func(o *Offer) { o.Certain = false })},
		{"a policy that admits everything", true, offer(t, func(o *Offer) { o.Strictness = placement.BestEffort })},
		{"one idle device, however strict", true, offer(t, func(o *Offer) { o.Devices = 1 })},
		{"many idle devices", true, offer(t, func(o *Offer) { o.Devices = 8 })},
		{"one that loses its CPUs, however few are idle", true, offer(t, func(o *Offer) { o.Devices, o.Stranded = 1, 1 })},
		{"a switch taken apart, however few devices are idle", true, offer(t, func(o *Offer) { o.Groups = 1 })},
		{"several taken apart", true, offer(t, func(o *Offer) { o.Groups = 3 })},
		{"two close NUMA nodes", true, offer(t, func(o *Offer) { o.Reach = topology.NewNUMASet(0, 1) })},
		{"two distant NUMA nodes", false, offer(t, func(o *Offer) { o.Reach = topology.NewNUMASet(0, 3) })},
		{"an unknown node", true, &Offer{}},
	}
	s := defaults()
	for i := 1; i < len(offers); i++ {
		a, b := s.Rank(offers[i-1].o), s.Rank(offers[i].o)
		if !a.Before(b) || b.Before(a) {
			t.Errorf("%s has %+v, %s %+v: want it before", offers[i-1].name, a, offers[i].name, b)
		}
		if (a.Tier != b.Tier) != offers[i].tier {
			t.Errorf("%s has %+v, %s %+v: another tier %t", offers[i-1].name, a, offers[i].name, b, offers[i].tier)
		}
	}
}

// firstDiffers is the slow twin of Tier, which compares one criterion after the other.
func firstDiffers(first []Criterion, a, b *Offer) int {
	for _, c := range first {
		var x, y int
		switch c {
		case StrandedBeside:
			x, y = min(a.Beside, 1), min(b.Beside, 1)
		case NUMANodes:
			x, y = min(a.Reach.Len(), 15), min(b.Reach.Len(), 15)
		case Groups:
			x, y = min(a.Groups, 3), min(b.Groups, 3)
		case Stranded:
			x, y = min(a.Stranded, 1), min(b.Stranded, 1)
		case Devices:
			x, y = min(a.Devices, 31), min(b.Devices, 31)
		case Policy:
			// Both restricted and single-numa-node keep a pod that they admit together.
			x, y = -min(int(a.Strictness), int(placement.Restricted)), -min(int(b.Strictness), int(placement.Restricted))
		}
		if x != y {
			return x - y
		}
	}
	return 0
}

func TestTierAgreesWithTwin(t *testing.T) {
	rng, m := rand.New(rand.NewPCG(3, 4)), machine(t)
	random := func() *Offer {
		return &Offer{Machine: m, Spare: ledger.Spare{Reach: topology.NUMASet(rng.Uint64() >> rng.IntN(64)), Groups: rng.IntN(3) * rng.IntN(6), Devices: rng.IntN(4) * rng.IntN(40), Stranded: rng.IntN(2) * rng.IntN(9), Beside: rng.IntN(2) * rng.IntN(9),
			Strictness: placement.Strictness(rng.IntN(int(placement.SingleNUMANode) + 1))}}
	}
	for range 20000 {
		s := defaults()
		rng.Shuffle(len(s.First), func(i, j int) { s.First[i], s.First[j] = s.First[j], s.First[i] })
		s.First = s.First[:rng.IntN(len(s.First)+1)]
		a, b := random(), random()
		x, y := s.Rank(a).Tier, s.Rank(b).Tier
		if want := firstDiffers(s.First, a, b); want < 0 != (x < y) || want > 0 != (x > y) || x == LastTier {
			t.Fatalf("%v: %+v has %#x, %+v %#x: want %d", s.First, a, x, b, y, want)
		}
	}
}

// TestDemandAgreesWithTwin: with the demand for nodes, ranks compare as in a slow twin, one
// criterion after the other.
func TestDemandAgreesWithTwin(t *testing.T) {
	rng, m := rand.New(rand.NewPCG(5, 6)), machine(t)
	type on struct {
		Offer
		level demand.Level
	}
	for range 20000 {
		s := defaults()
		rng.Shuffle(len(s.First), func(i, j int) { s.First[i], s.First[j] = s.First[j], s.First[i] })
		s.First = s.First[:rng.IntN(len(s.First)+1)]
		asks := rng.IntN(2) == 0
		random := func() on {
			o := on{Offer{Machine: m, Spare: ledger.Spare{Reach: topology.NUMASet(rng.Uint64N(8)), Devices: rng.IntN(3), Stranded: rng.IntN(2), Strictness: placement.Restricted}}, demand.Level(rng.IntN(3))}
			if !asks {
				o.Beside = o.Stranded
			}
			return o
		}
		a, b := random(), random()
		rankOf := func(o *on) Tier { return s.Setting(asks).Rank(s.Rank(&o.Offer), o.level).Tier }
		seen := func(o *on) Offer { // there is no demand for the devices, so that they do not matter
			out := o.Offer
			if o.level == 0 && !asks {
				out.Beside, out.Devices = 0, 0
			}
			return out
		}
		want := 0
		for _, c := range s.First {
			x, y := seen(&a), seen(&b)
			if want == 0 && c == Demand && asks {
				want = int(a.level) - int(b.level)
			}
			if want == 0 && c != Demand {
				want = firstDiffers([]Criterion{c}, &x, &y)
			}
		}
		if x, y := rankOf(&a), rankOf(&b); want < 0 != (x < y) || want > 0 != (x > y) {
			t.Fatalf("%v, asks %t: %+v has %#x, %+v %#x: want %d", s.First, asks, a, x, b, y, want)
		}
	}
	s := defaults()
	if got := s.Setting(true).Rank(Rank{Tier: LastTier}, demand.MostDemand); got.Tier != LastTier {
		t.Errorf("a node about which nothing is known has tier %#x", got.Tier)
	}
	volcano := Scoring{Formula: Volcano}
	volcano.FillIn()
	if in := volcano.Setting(true); in != (Setting{}) {
		t.Errorf("formula volcano: %+v", in)
	}
}

func TestStrategies(t *testing.T) {
	half := func(o *Offer) { take(o, "0-3") }
	most, least := defaults(), defaults()
	least.Strategy = LeastAllocated
	if a, b := most.Rank(offer(t, half)).Score, most.Rank(offer(t, nil)).Score; a <= b {
		t.Errorf("MostAllocated: %d for the smaller block, %d for the larger", a, b)
	}
	if a, b := least.Rank(offer(t, half)).Score, least.Rank(offer(t, nil)).Score; a >= b {
		t.Errorf("LeastAllocated: %d for the smaller block, %d for the larger", a, b)
	}
	full := offer(t, func(o *Offer) { o.CPUs = topology.CPUSet{}; o.Asked = 0 })
	if got := most.Rank(full).Score; got != MaxScore {
		t.Errorf("nothing free, nothing asked: %d, want %d", got, MaxScore)
	}
	if got := most.Rank(offer(t, func(o *Offer) { o.Reach = 0 })); got.Score > MaxScore {
		t.Errorf("nothing pinned: %+v", got)
	}
}

// TestBusyNodesComeLater: pods in flight lower a node's score by more than any fit raises it, but
// do not change its tier.
func TestBusyNodesComeLater(t *testing.T) {
	s := defaults()
	full := s.Rank(offer(t, func(o *Offer) { take(o, "0-3") }))
	empty := s.Rank(offer(t, nil))
	if busy := s.Busy(full.Score, busyFrom); busy >= empty.Score {
		t.Errorf("%d for a full node with pods in flight, %d for an empty one without", busy, empty.Score)
	}
	if IsBusy(busyFrom-1) || !IsBusy(busyFrom) {
		t.Errorf("busy with %d pods in flight: %t, with %d: %t", busyFrom-1, IsBusy(busyFrom-1), busyFrom, IsBusy(busyFrom))
	}
	for score := range MaxScore + 1 {
		got := s.Busy(uint8(score), busyFrom)
		if more := s.Busy(uint8(score), 2*busyFrom); int(got) > score || more > got || s.Busy(uint8(score), busyFrom-1) != uint8(score) {
			t.Errorf("%d becomes %d, and %d with twice as many in flight", score, got, more)
		}
	}
}

// TestStrictPoliciesAreEqual: for a pod that fits on one NUMA node, a stricter policy than
// restricted is no better.
func TestStrictPoliciesAreEqual(t *testing.T) {
	s := defaults()
	a, b := s.Rank(offer(t, nil)), s.Rank(offer(t, func(o *Offer) { o.Strictness = placement.Restricted }))
	if a != b {
		t.Errorf("%+v on single-numa-node, %+v on restricted", a, b)
	}
}

func TestRankAllocatesNothing(t *testing.T) {
	s, o := defaults(), offer(t, nil)
	if n := testing.AllocsPerRun(100, func() { s.Rank(o) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestScoringThatCannotBeRight(t *testing.T) {
	for _, s := range []Scoring{
		{First: []Criterion{"cpus"}}, {First: []Criterion{Devices, Devices}}, {Strategy: "Most"}, {Fit: -1}, {Distance: 1001},
		{Certainty: -1, Fit: 1},
	} {
		s.FillIn()
		if s.Validate() == nil {
			t.Errorf("%+v was let through", s)
		}
	}
	s := defaults()
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	none := Scoring{First: []Criterion{}}
	if none.FillIn(); len(none.First) != 0 {
		t.Errorf("an empty list became %v", none.First)
	}
}

// TestOrder: the order of ranks is that of Before. With Volcano's formula, fewer NUMA nodes are
// better, as in its scores.
func TestOrder(t *testing.T) {
	rng, own, volcano := rand.New(rand.NewPCG(3, 4)), defaults(), Scoring{Formula: Volcano}
	random := func() Rank {
		return Rank{Tier: Tier(rng.Uint32()>>rng.IntN(32)) & LastTier, Score: uint8(rng.IntN(MaxScore + 1))}
	}
	for range 5000 {
		a, b := random(), random()
		if own.Order(a) < own.Order(b) != a.Before(b) || own.Order(a) < LastOrder != (a.Tier < LastTier) {
			t.Fatalf("%+v has order %#x, %+v %#x", a, own.Order(a), b, own.Order(b))
		}
		a.Tier, b.Tier = 0, 0
		if x, y := VolcanoScore(int64(a.Score), MaxScore), VolcanoScore(int64(b.Score), MaxScore); x > y && volcano.Order(a) >= volcano.Order(b) {
			t.Fatalf("%d NUMA nodes have order %#x, %d %#x", a.Score, volcano.Order(a), b.Score, volcano.Order(b))
		}
	}
}

// TestScoringInWords: the text lists the criteria in their order.
func TestScoringInWords(t *testing.T) {
	var filled Scoring
	filled.FillIn()
	for want, s := range map[string]Scoring{
		"strandedBeside, numaNodes, groups, stranded, demand, devices, policy, then MostAllocated": filled,
		"policy, then LeastAllocated": {First: []Criterion{Policy}, Strategy: LeastAllocated},
		"then MostAllocated":          {First: []Criterion{}, Strategy: MostAllocated},
		"formula volcano":             {Formula: Volcano},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
