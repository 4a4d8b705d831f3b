package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// perSocket provides an amount of a resource on each socket, for any of its NUMA nodes. A container
// gets all of its request from one socket.
type perSocket struct {
	name string
	each uint64
	// lie makes it give more than it has.
	lie bool
}

func (p perSocket) Resource() string { return p.name }

func (p perSocket) Supply(view *placement.KubeletView, space *hint.Space) (placement.Supply, error) {
	if p.each == 13 {
		return nil, fmt.Errorf("thirteen")
	}
	s := socketSupply{lie: p.lie}
	for i := range view.Nodes {
		pos, _ := space.Position(view.Nodes[i].ID)
		id := view.Nodes[i].Cores[0].Socket
		at := slices.IndexFunc(s.places, func(q placement.Place) bool { return q.Name == fmt.Sprint(id) })
		if at < 0 {
			at = len(s.places)
			s.places, s.near = append(s.places, placement.Place{Name: fmt.Sprint(id), Capacity: p.each}), append(s.near, 0)
		}
		s.near[at] |= 1 << pos
	}
	s.masks = space.BySize()
	return &s, nil
}

type socketSupply struct {
	places []placement.Place
	near   []hint.Mask
	masks  []hint.Mask
	lie    bool
}

func (s *socketSupply) Places() []placement.Place { return s.places }

func (s *socketSupply) Hints(out hint.Set, free []uint64, n uint64) {
	for _, m := range s.masks {
		if s.pick(free, n, m) >= 0 {
			out.Add(m)
		}
	}
}

func (s *socketSupply) Allocate(take, free []uint64, n uint64, nodes hint.Mask) bool {
	at := s.pick(free, n, nodes)
	if at < 0 {
		return false
	}
	if take[at] = n; s.lie {
		take[at]++
	}
	return true
}

// pick returns the place with the smallest sufficient amount.
func (s *socketSupply) pick(free []uint64, n uint64, nodes hint.Mask) int {
	best := -1
	for i := range s.near {
		if s.near[i]&nodes != 0 && free[i] >= n && (best < 0 || free[i] < free[best]) {
			best = i
		}
	}
	return best
}

const licence = "example.com/licence"

func licensed(c placement.ContainerRequest, n int64) placement.ContainerRequest {
	c.Devices = append(c.Devices, placement.DeviceRequest{Resource: licence, Count: n})
	return c
}

func withLicences(each uint64) placement.Config {
	cfg := obeying()
	cfg.Providers = []placement.Provider{perSocket{name: licence, each: each}}
	return cfg
}

// TestProvider: the provider's hints take part in the choice of NUMA nodes.
func TestProvider(t *testing.T) {
	single := placement.Rules{Policy: placement.PolicySingleNUMANode}
	pod := placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope}
	init := placement.ContainerRequest{Name: "i", Kind: placement.Init, MilliCPU: 1000}
	side := placement.ContainerRequest{Name: "s", Kind: placement.Sidecar, MilliCPU: 1000}
	two := machine{2, 1, 8, 1, 16 << 30, 0} // two sockets of one NUMA node
	for _, c := range []struct {
		name  string
		first []placement.Request
		r     placement.Request
		want  string
	}{
		{"beside the CPUs", nil, guaranteed("x", single, licensed(app("a", 4000, 1), 2)), "a:1-4@0 0=2"},
		{"where there are some left", []placement.Request{guaranteed("f", single, licensed(app("a", 1000, 1), 3))},
			guaranteed("x", single, licensed(app("a", 4000, 1), 2)), "a:8-11@1 1=2"},
		{"no CPUs there", []placement.Request{guaranteed("f", single, licensed(app("a", 1000, 1), 3)), guaranteed("g", single, app("a", 8000, 1))},
			guaranteed("x", single, licensed(app("a", 4000, 1), 2)), "ProvidedApart"},
		{"alone", nil, guaranteed("x", single, licensed(app("a", 0, 0), 2)), "a:@0 0=2"},
		{"too many", nil, guaranteed("x", single, licensed(app("a", 1000, 0), 4)), "NotProvided"},
		{"two containers of one node each", nil, guaranteed("x", single, licensed(app("a", 1000, 0), 2), licensed(app("b", 1000, 0), 2)), "a:1@0 0=2 b:8@1 1=2"},
		{"two containers of one pod", nil, guaranteed("x", pod, licensed(app("a", 1000, 0), 2), licensed(app("b", 1000, 0), 1)), "a:1@0 0=2 b:2@0 0=1"},
		{"the pod as a whole has too many", nil, guaranteed("x", pod, licensed(app("a", 1000, 0), 2), licensed(app("b", 1000, 0), 2)), "NotProvided"},
		{"init takes turns", nil, guaranteed("x", single, licensed(init, 3), licensed(app("b", 1000, 0), 3)), "i:1@0 0=3 b:1@0 0=3"},
		{"init beside a sidecar", nil, guaranteed("x", single, licensed(side, 2), licensed(init, 2), licensed(app("b", 1000, 0), 1)), "s:1@0 0=2 i:8@1 1=2 b:2@0 0=1"},
		{"whatever the policy", nil, guaranteed("x", placement.Rules{}, licensed(app("a", 12000, 0), 3)), "a:1-4,8-15@0-1 0=3"},
		{"a device beside it", nil, guaranteed("x", single, placement.ContainerRequest{Name: "a", Devices: []placement.DeviceRequest{{Resource: licence, Count: 1}, {Resource: "x/y", Count: 1}}}), "DevicesUndecided"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := state(t, two.view(), withLicences(3))
			for i := range c.first {
				put(t, s, &c.first[i])
			}
			var d placement.Decision
			v := placement.Decide(s, &c.r, &d)
			got := v.Detail.String()
			if v.OK() {
				got = tellProvided(&d)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if e := placement.Explain(s, &c.r); e.Reason != v.Reason || v.Detail == placement.NotProvided && !strings.Contains(e.String(), licence) {
				t.Errorf("explained as %s", e)
			}
		})
	}
}

func tellProvided(d *placement.Decision) string {
	var all []string
	for i := range d.Containers {
		c := &d.Containers[i]
		text := fmt.Sprintf("%s:%v@%s", c.Name, c.CPUs, c.Hint.NUMA)
		for _, p := range c.Provided {
			text += fmt.Sprintf(" %s=%d", p.Place, p.Amount)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func put(t *testing.T, s *placement.State, r *placement.Request) {
	t.Helper()
	var d placement.Decision
	if v := placement.Decide(s, r, &d); !v.OK() {
		t.Fatalf("%s: %s", r.UID, placement.Explain(s, r))
	}
	s.Commit(r, &d)
}

// TestProviderWhereTheKubeletDecides: the node refuses the pod, and the refusal names the resource.
func TestProviderWhereTheKubeletDecides(t *testing.T) {
	s := state(t, two8.view(), placement.Config{Providers: withLicences(3).Providers})
	r := guaranteed("x", placement.Rules{}, app("a", 1000, 0), licensed(app("b", 1000, 0), 1))
	v := placement.Admit(s, &r)
	if v.Detail != placement.ProviderElsewhere || v.Scarcity != placement.Unresolvable {
		t.Errorf("%+v", v)
	}
	if text := placement.Explain(s, &r).String(); !strings.HasPrefix(text, "container b: "+licence+": ") {
		t.Error(text)
	}
	r = guaranteed("x", placement.Rules{}, app("a", 1000, 0))
	if v := placement.Admit(s, &r); !v.OK() {
		t.Errorf("another pod is refused: %+v", v)
	}
}

// TestProviderThatLies: a wrong allocation of a provider is never recorded.
func TestProviderThatLies(t *testing.T) {
	cfg := obeying()
	cfg.Providers = []placement.Provider{perSocket{licence, 3, true}}
	s := state(t, two8.view(), cfg)
	r := guaranteed("x", placement.Rules{}, licensed(app("a", 1000, 0), 1))
	if v := placement.Admit(s, &r); v.Detail != placement.ProviderWrong {
		t.Errorf("%+v, want ProviderWrong", v)
	}
}

// TestProviderIsChecked: a provider's places are limited, and an error names a wrong one.
func TestProviderIsChecked(t *testing.T) {
	for name, ps := range map[string][]placement.Provider{
		"no name":  {perSocket{each: 1}},
		"twice":    {perSocket{licence, 1, false}, perSocket{licence, 1, false}},
		"too much": {perSocket{licence, 1<<30 + 1, false}},
		"an error": {perSocket{licence, 13, false}},
	} {
		cfg := obeying()
		cfg.Providers = ps
		if _, err := placement.NewModel(two8.view(), cfg); err == nil || !strings.Contains(err.Error(), "providers[") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProviderBooks admits and releases pods at random. No unit is allocated twice. A pod is placed
// exactly if the twin finds a set of NUMA nodes with room for everything. A state that is rebuilt
// from the pods' resources is equal.
func TestProviderBooks(t *testing.T) {
	placed, refused := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		shape := machine{1 + rng.IntN(2), 1 + rng.IntN(2), 4, 1, 16 << 30, 0}
		s := state(t, shape.view(), withLicences(uint64(2+rng.IntN(4))))
		empty := s.Clone()
		var there []string
		for step := range 40 {
			if len(there) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(there))
				s.Release(there[i])
				there = slices.Delete(there, i, i+1)
				continue
			}
			rules := placement.Rules{Policy: []placement.Policy{placement.PolicyNone, placement.PolicySingleNUMANode}[rng.IntN(2)]}
			r := guaranteed(fmt.Sprint(step), rules, licensed(app("a", int64(1+rng.IntN(4))*1000, 0), int64(rng.IntN(4))))
			fits := providerTwin(s, &r, shape, empty)
			var d placement.Decision
			v := placement.Decide(s, &r, &d)
			if v.OK() != fits {
				t.Fatalf("seed %d, step %d: %s, and the twin says %v", seed, step, placement.Explain(s, &r), fits)
			}
			if !v.OK() {
				refused++
				continue
			}
			placed++
			s.Commit(&r, &d)
			there = append(there, r.UID)
			if err := s.Check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			for place, n := range handedOut(s, there) {
				if n > capacityOf(empty, place) {
					t.Fatalf("seed %d, step %d: %d of %d at %s", seed, step, n, capacityOf(empty, place), place)
				}
			}
		}
		again := empty.Clone()
		for _, uid := range there {
			p, _ := s.Pod(uid)
			if problem := again.Hold(&p); problem != "" {
				t.Fatal(problem)
			}
		}
		if !again.Equal(s) || string(again.AppendStateKey(nil)) != string(s.AppendStateKey(nil)) {
			t.Fatalf("seed %d: rebuilt from what the pods hold, the state is another one", seed)
		}
		for _, uid := range there {
			s.Release(uid)
		}
		if string(empty.AppendStateKey(nil)) != string(s.AppendStateKey(nil)) {
			t.Fatalf("seed %d: something is left when all have gone", seed)
		}
	}
	if placed < 1000 || refused < 200 {
		t.Errorf("%d placed, %d refused: the cases are too easy or too hard", placed, refused)
	}
}

// handedOut returns the resources of pods, by place.
func handedOut(s *placement.State, uids []string) map[string]uint64 {
	out := map[string]uint64{}
	for _, uid := range uids {
		p, _ := s.Pod(uid)
		for _, c := range p.Containers {
			for _, h := range c.Provided {
				out[h.Place] += h.Amount
			}
		}
	}
	return out
}

// capacityOf requests more and more on the empty machine.
func capacityOf(empty *placement.State, place string) uint64 {
	for n := int64(1); ; n++ {
		r := guaranteed("probe", placement.Rules{}, licensed(app("a", 0, 0), n))
		if v := placement.Admit(empty, &r); !v.OK() {
			return uint64(n - 1) // every socket has the same
		}
	}
}

// providerTwin tries every set of NUMA nodes: the set must have enough free CPUs, and a socket with
// enough of the resource.
func providerTwin(s *placement.State, r *placement.Request, shape machine, empty *placement.State) bool {
	view := shape.view()
	free := s.FreeCPUs()
	var uids []string
	for i := range 40 {
		if s.Has(fmt.Sprint(i)) {
			uids = append(uids, fmt.Sprint(i))
		}
	}
	used, asked := handedOut(s, uids), uint64(r.Containers[0].Devices[0].Count)
	for mask := 1; mask < 1<<len(view.Nodes); mask++ {
		var cpus topology.CPUSet
		licences, nodes := asked == 0, 0
		for i := range view.Nodes {
			if mask>>i&1 == 0 {
				continue
			}
			nodes++
			for _, c := range view.Nodes[i].Cores {
				for _, id := range c.Threads {
					cpus.Add(id)
				}
			}
			name := fmt.Sprint(view.Nodes[i].Cores[0].Socket)
			licences = licences || capacityOf(empty, name) >= used[name]+asked
		}
		cpus = cpus.And(&free)
		if licences && int64(cpus.Len())*1000 >= r.Containers[0].MilliCPU && (nodes == 1 || r.Rules.Policy == placement.PolicyNone) {
			return true
		}
	}
	return false
}

// TestProviderNoAllocations: a decision with a provider allocates no memory.
func TestProviderNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes sync.Pool drop what it is given")
	}
	s := state(t, m8.view(), withLicences(8))
	r := guaranteed("x", placement.Rules{Policy: placement.PolicySingleNUMANode}, licensed(app("a", 8000, 4), 2))
	ask := func() {
		if v := placement.Admit(s, &r); !v.OK() {
			t.Fatal(v)
		}
	}
	ask()
	if n := testing.AllocsPerRun(200, ask); n >= 1 {
		t.Errorf("Admit allocates %v times", n)
	}
}
