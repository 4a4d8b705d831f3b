package cpu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

// twins are the same machine in both implementations.
type twins struct {
	node Node
	o    Options
	fast *Topology
	slow *slow
}

func newTwins(t *testing.T, n Node, o Options) twins {
	fast, err := New(n, o)
	if err != nil {
		t.Fatalf("New(%+v, %+v): %v", n, o, err)
	}
	return twins{n, o, fast, newSlow(n, o)}
}

func (w twins) String() string { return fmt.Sprintf("%+v\n%+v", w.o, w.node) }

func (w twins) compare(t *testing.T, what string, got topology.CPUSet, gotErr error, want ints, wantErr error) {
	t.Helper()
	if gotErr != wantErr || gotErr == nil && got != packed(want) {
		t.Fatalf("%s = %s, %v; want %s, %v\n%s", what, got, gotErr, packed(want), wantErr, w)
	}
}

func (w twins) checkTake(t *testing.T, r *rand.Rand) {
	avail := randomSubset(r, w.node)
	n := r.IntN(avail.Len()+3) - 1
	var got topology.CPUSet
	err := w.fast.Take(&avail, n, &got)
	want, wantErr := w.slow.take(plain(avail), n)
	w.compare(t, fmt.Sprintf("Take(%s, %d)", avail, n), got, err, want, wantErr)
	if w.fast.Regular() && err == nil && (!got.IsSubsetOf(&avail) || got.Len() != max(n, 0)) {
		t.Fatalf("Take(%s, %d) = %s on a regular node\n%s", avail, n, got, w)
	}
}

func (w twins) checkAllocate(t *testing.T, r *rand.Rand) {
	shared, reserved := randomSubset(r, w.node), topology.CPUSet{}
	for id := range w.fast.CPUs().All() {
		if r.IntN(12) == 0 {
			reserved.Add(id)
		}
	}
	siblings, err := w.fast.Siblings(reserved)
	if err != nil {
		t.Fatal(err)
	}
	reusable := randomSubset(r, w.node).AndNot(&shared)
	in := AllocateInput{
		N: 1 + r.IntN(shared.Len()+2), Shared: &shared, Reserved: &reserved, Siblings: &siblings, Reusable: &reusable,
		Aligned: r.IntN(4) > 0, NUMA: topology.NUMASet(r.Uint64N(1 << 10)),
	}
	var got topology.CPUSet
	err = w.fast.Allocate(&in, &got)
	want, wantErr := w.slow.allocate(slowInput{
		n: in.N, shared: plain(shared), reserved: plain(reserved), reusable: plain(reusable), aligned: in.Aligned, numa: in.NUMA,
	})
	w.compare(t, fmt.Sprintf("Allocate(%d of %s less %s, or %s, on %v %s)", in.N, shared, reserved, reusable, in.Aligned, in.NUMA), got, err, want, wantErr)
}

func (w twins) checkHints(t *testing.T, r *rand.Rand) {
	nodes := topology.NUMASet(0)
	for _, th := range w.node.Threads {
		nodes = nodes.With(th.NUMA)
	}
	if nodes.Len() > 8 {
		return
	}
	space, err := hint.NewSpace(nodes.With(topology.NUMAID(r.IntN(12))))
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHinter(w.fast, space)
	if err != nil {
		t.Fatal(err)
	}
	avail, reusable := randomSubset(r, w.node), topology.CPUSet{}
	if r.IntN(2) == 0 {
		reusable = randomSubset(r, w.node)
	}
	in := HintInput{N: 1 + r.IntN(len(w.node.Threads)+1), Available: &avail, Reusable: &reusable, Want: hint.Offered}
	full, brief := space.NewList(), space.NewList()
	h.Hints(&in, &full)
	in.Want = hint.Preferred
	h.Hints(&in, &brief)
	offered, preferred := 0, 0
	for _, want := range w.slow.hints(plain(avail), plain(reusable), in.N) {
		m := space.Compact(want.mask)
		if !full.Offered.Has(m) || full.Preferred.Has(m) != want.preferred || brief.Preferred.Has(m) != want.preferred {
			t.Fatalf("hints for %d of %s, %s: %s (preferred %v) differs\n%s", in.N, avail, reusable, want.mask, want.preferred, w)
		}
		offered++
		if want.preferred {
			preferred++
		}
	}
	if full.Offered.Len() != offered || full.Preferred.Len() != preferred || brief.Preferred.Len() != preferred {
		t.Fatalf("hints for %d of %s, %s: %d offered, %d preferred; want %d, %d\n%s", in.N, avail, reusable,
			full.Offered.Len(), full.Preferred.Len(), offered, preferred, w)
	}
	if (full.Kind == hint.Impossible) != (offered == 0) {
		t.Fatalf("kind %v with %d offered", full.Kind, offered)
	}
}

// check asks one random question of each kind.
func (w twins) check(t *testing.T, r *rand.Rand) {
	w.checkTake(t, r)
	w.checkAllocate(t, r)
	w.checkHints(t, r)
}

func TestTwins(t *testing.T) {
	machines := 200
	if s := os.Getenv("BERTH_CPU_MACHINES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		machines = n
	}
	for seed := range uint64(machines) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newTwins(t, randomNode(r), randomOptions(r))
		for range 6 {
			w.check(t, r)
		}
	}
}

// TestTwinsDistribute asks questions that trigger the kubelet's defects in distribution.
func TestTwinsDistribute(t *testing.T) {
	hangs := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		o := Options{DistributeAcrossNUMA: true, FullPhysicalCPUsOnly: r.IntN(2) == 0, AlignBySocket: r.IntN(3) == 0, Version: release.V136 + release.Version(r.IntN(2))}
		w := newTwins(t, wideNode(r), o)
		for range 6 {
			avail := randomSubset(r, w.node)
			n := 1 + r.IntN(avail.Len()+1)
			var got topology.CPUSet
			err := w.fast.Take(&avail, n, &got)
			want, wantErr := w.slow.take(plain(avail), n)
			w.compare(t, fmt.Sprintf("Take(%s, %d)", avail, n), got, err, want, wantErr)
			if err == ErrWouldHang {
				hangs++
			}
		}
	}
	if hangs == 0 {
		t.Error("no random question made the kubelet hang")
	}
}

func FuzzTwins(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed*seed)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		newTwins(t, randomNode(r), randomOptions(r)).check(t, r)
	})
}

// TestTwinsReach checks that the random questions get every possible answer.
func TestTwinsReach(t *testing.T) {
	seen := map[error]int{}
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 2))
		n, o := randomNode(r), randomOptions(r)
		fast, err := New(n, o)
		if err != nil {
			t.Fatal(err)
		}
		shared, empty := randomSubset(r, n), topology.CPUSet{}
		in := AllocateInput{N: 1 + r.IntN(shared.Len()+2), Shared: &shared, Reserved: &empty, Siblings: &empty}
		var out topology.CPUSet
		seen[fast.Allocate(&in, &out)]++
	}
	for _, err := range []error{nil, ErrNotEnough, ErrAccounting, ErrSMTSize, ErrSMTCores} {
		if seen[err] == 0 {
			t.Errorf("no random question was answered with %v: %v", err, seen)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	one := []Thread{{}}
	for name, tc := range map[string]struct {
		n     Node
		o     Options
		field string
	}{
		"no threads":        {Node{NumCPUs: 1, NumCores: 1, NumSockets: 1}, Options{}, "Threads"},
		"no sockets":        {Node{NumCPUs: 1, NumCores: 1, Threads: one}, Options{}, "NumSockets"},
		"no cores":          {Node{NumCPUs: 1, NumSockets: 1, Threads: one}, Options{}, "NumCores"},
		"fewer than a core": {Node{NumCPUs: 1, NumCores: 2, NumSockets: 1, Threads: one}, Options{}, "NumCPUs"},
		"CPU out of range":  {Node{NumCPUs: 1, NumCores: 1, NumSockets: 1, Threads: []Thread{{CPU: 1024}}}, Options{}, "Threads[0].CPU"},
		"NUMA out of range": {Node{NumCPUs: 1, NumCores: 1, NumSockets: 1, Threads: []Thread{{NUMA: 64}}}, Options{}, "Threads[0].NUMA"},
		"unknown release":   {Node{NumCPUs: 1, NumCores: 1, NumSockets: 1, Threads: one}, Options{Version: 32}, "Options.Version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(tc.n, tc.o)
			var ne *NodeError
			if !errors.As(err, &ne) || ne.Field != tc.field {
				t.Fatalf("New = %v, want a NodeError about %s", err, tc.field)
			}
		})
	}
}
