package joint

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// deviceTwin computes Place's answer by trying every set of devices of every kind, on every set of
// NUMA nodes. It does not use places and tables.
type deviceTwin struct {
	twin
	c *Config
}

// deviceAnswer is the best choice, and its rank.
type deviceAnswer struct {
	nodes hint.Mask
	same  bool
	rank  deviceRank
}

// deviceRank has criteria in the order of their importance. Lower is better.
type deviceRank [8]int

func (t deviceTwin) place() (deviceAnswer, bool) {
	limit := t.m.space.Len()
	switch t.w.Width {
	case One:
		limit = 1
	case Fewest:
		limit = 0
		empty := deviceTwin{twin{t.m, t.m.empty, t.w}, t.c}
		levels := empty.levels()
		if best, ok := empty.narrowestOf(levels[len(levels)-1:], []bool{t.w.Same != Anywhere && t.w.SameHow == Required}, t.m.space.Len()); ok {
			limit = best.nodes.Len()
		}
	}
	if t.w.Nodes > 0 {
		limit = t.m.space.Len()
	}
	sames := []bool{false}
	switch {
	case t.w.Same != Anywhere && t.w.SameHow == Required:
		sames = []bool{true}
	case t.w.Same != Anywhere:
		sames = []bool{true, false}
	}
	return t.narrowestOf(t.levels(), sames, limit)
}

func (t deviceTwin) narrowestOf(levels []answer, sames []bool, limit int) (best deviceAnswer, found bool) {
	for k := 1; k <= limit; k++ {
		if t.w.Nodes > 0 && k != t.w.Nodes {
			continue
		}
		for _, same := range sames {
			for _, a := range levels {
				for _, mask := range t.m.space.OfSize(k) {
					if !t.fits(a, mask) {
						continue
					}
					t.each(0, nil, func(got [][]int) {
						if rank, ok := t.rank(got, mask, same); ok && (!found || slices.Compare(rank[:], best.rank[:]) < 0) {
							best, found = deviceAnswer{mask, same, rank}, true
						}
					})
				}
				if found {
					return best, true
				}
			}
		}
	}
	return best, false
}

// each calls f with every set of free devices of each kind that is wanted.
func (t deviceTwin) each(i int, got [][]int, f func([][]int)) {
	if i == len(t.w.Devices) {
		f(got)
		return
	}
	w := &t.w.Devices[i]
	n := len(t.c.Devices[w.Kind].Devices)
	for set := range 1 << n {
		var mine []int
		for d := range n {
			if set>>d&1 == 1 && t.m.Devices.IsFree(t.b, DeviceRef{w.Kind, uint16(d)}) {
				mine = append(mine, d)
			}
		}
		if len(mine) == bits.OnesCount(uint(set)) {
			t.each(i+1, append(slices.Clone(got), mine), f)
		}
	}
}

// where returns the place of a device, in the places that the want uses.
func (t deviceTwin) where(d *Device) [3]int {
	if t.w.Same.byRoot() {
		return [3]int{d.Node, d.Root}
	}
	return [3]int{d.Node, d.Root, d.Switch}
}

func (t deviceTwin) rank(got [][]int, mask hint.Mask, same bool) (r deviceRank, ok bool) {
	used := map[[3]int]bool{}
	byKind := make([]map[[3]int]bool, len(got))
	linked := -1
	for i, mine := range got {
		w := &t.w.Devices[i]
		kind := &t.c.Devices[w.Kind]
		functions, all := map[int]bool{}, map[int]bool{}
		for d := range kind.Devices {
			all[t.function(kind, d)] = true
		}
		byKind[i] = map[[3]int]bool{}
		for _, d := range mine {
			dev := &kind.Devices[d]
			if dev.Node == NoNode && (t.w.Width != AnyWidth || t.w.PerNode > 0) && len(t.m.Cores.nodes) > 1 || dev.Node != NoNode && !mask.Has(dev.Node) {
				return r, false
			}
			functions[t.function(kind, d)] = true
			used[t.where(dev)], byKind[i][t.where(dev)] = true, true
		}
		if t.w.PerNode > 0 {
			for v := range mask.All() {
				n := 0
				for _, d := range mine {
					n += b2i(kind.Devices[d].Node == v || len(t.m.Cores.nodes) == 1)
				}
				if n != t.w.PerNode {
					return r, false
				}
			}
		}
		switch {
		case w.All && (len(functions) != len(all) || len(mine) != len(all) || len(all) == 0),
			!w.All && len(mine) != w.N,
			w.OnePerFunction && len(functions) != len(mine):
			return r, false
		}
		if linked < 0 && t.m.Devices.kinds[w.Kind].links != nil {
			linked = i
		}
	}
	if same && !t.together(used, byKind) {
		return r, false
	}
	if linked >= 0 {
		r[0], r[1], r[2] = t.links(t.w.Devices[linked].Kind, got[linked])
	}
	r[3] = len(used)
	r[4] = int(t.m.distance[mask])
	r[5] = t.left(func(at [3]int) bool { return used[at] })
	r[6] = t.left(func(at [3]int) bool { return at[0] != NoNode && mask.Has(at[0]) })
	for v := range mask.All() {
		r[7] += int(t.m.Amounts.Room(t.b, CPU, v))
	}
	if t.m.strategy == LeastAllocated {
		r[6], r[7] = -r[6], -r[7]
	}
	return r, true
}

// function returns a number that is equal for devices of the same physical function of a kind.
func (t deviceTwin) function(kind *DeviceKind, d int) int {
	if f := kind.Devices[d].Function; f != 0 {
		return f
	}
	return -1 - d
}

func (t deviceTwin) together(used map[[3]int]bool, byKind []map[[3]int]bool) bool {
	if t.w.Same.one() && len(used) > 1 {
		return false
	}
	for at := range used {
		if t.w.Same.byRoot() && at[1] == 0 || !t.w.Same.byRoot() && at[2] == 0 {
			return false
		}
		for _, mine := range byKind {
			if !mine[at] {
				return false
			}
		}
	}
	return true
}

// links returns ranks of the links among the devices, and of the remaining groups of devices.
func (t deviceTwin) links(kind uint8, mine []int) (inside, fours, pairs int) {
	k := &t.c.Devices[kind]
	count := func(a, b int) (n int) {
		for _, l := range k.Links {
			if l.A == a && l.B == b || l.A == b && l.B == a {
				n += l.Count
			}
		}
		return n
	}
	bond := func(a, b int) int {
		if node := k.Devices[a].Node; node == k.Devices[b].Node && node != NoNode {
			return count(a, b) + 1<<12
		}
		return count(a, b)
	}
	var rest []int
	for d := range k.Devices {
		if !slices.Contains(mine, d) && t.m.Devices.IsFree(t.b, DeviceRef{kind, uint16(d)}) {
			rest = append(rest, d)
		}
	}
	for i, a := range mine {
		for _, b := range mine[:i] {
			inside += count(a, b)
		}
	}
	var best func(rest []int, size int) int
	best = func(rest []int, size int) (most int) {
		for set := range 1 << len(rest) {
			if bits.OnesCount(uint(set)) != size {
				continue
			}
			sum := 0
			var others []int
			for i, a := range rest {
				if set>>i&1 == 0 {
					others = append(others, a)
					continue
				}
				for j, b := range rest[:i] {
					if set>>j&1 == 1 {
						sum += bond(a, b)
					}
				}
			}
			most = max(most, sum+best(others, size))
		}
		return most
	}
	return -inside, -best(rest, 4), -best(rest, 2)
}

// left returns how many devices of the wanted kinds could be taken at some places.
func (t deviceTwin) left(there func(at [3]int) bool) (n int) {
	for i := range t.w.Devices {
		w := &t.w.Devices[i]
		kind := &t.c.Devices[w.Kind]
		seen := map[[4]int]bool{}
		for d := range kind.Devices {
			at := t.where(&kind.Devices[d])
			if !there(at) || !t.m.Devices.IsFree(t.b, DeviceRef{w.Kind, uint16(d)}) {
				continue
			}
			key := [4]int{at[0], at[1], at[2], t.function(kind, d)}
			if (w.OnePerFunction || w.All) && seen[key] {
				continue
			}
			seen[key] = true
			n++
		}
	}
	return n
}

// deviceMachines are small machines without devices, of one to four NUMA nodes.
var deviceMachines = []string{
	"package:1 numa:1 l3:1 core:2 pu:1 mem:8Gi dist:10",
	"package:2 numa:1 l3:1 core:2 pu:1 mem:8Gi dist:10,21",
	"package:2 numa:2 l3:1 core:1 pu:1 mem:8Gi dist:10,12,32",
}

func randomDevices(rng *rand.Rand, c *Config) {
	for i, name := range []string{"gpu", "nic", "disk"}[:1+rng.IntN(3)] {
		kind := DeviceKind{Name: name}
		for d := range 1 + rng.IntN(5-i) {
			at := 1 + rng.IntN(3)
			dev := Device{ID: fmt.Sprint(name, d), Node: at % len(c.Nodes), Root: at, Switch: (10*at + rng.IntN(2)) * rng.IntN(4) / 3, Unhealthy: rng.IntN(10) == 0}
			if rng.IntN(8) == 0 && len(c.Nodes) > 1 && i != 1 { // functions have a place
				dev.Node, dev.Root = NoNode, 0
			}
			if i == 1 {
				dev.Function = 1 + 10*at + rng.IntN(2)
				dev.Switch = 10 * at
			}
			kind.Devices = append(kind.Devices, dev)
		}
		for a := range kind.Devices {
			for b := range a {
				if i == 0 && rng.IntN(2) == 0 {
					kind.Links = append(kind.Links, DeviceLink{A: a, B: b, Count: 1 + rng.IntN(2)})
				}
			}
		}
		c.Devices = append(c.Devices, kind)
	}
}

func TestDevicesAgainstTheTwin(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	rounds := 1500
	if testing.Short() {
		rounds = 300
	}
	seen := map[PlaceResult]int{}
	together := 0
	for i := range rounds {
		c := configOf(deviceMachines[i%len(deviceMachines)], randomModel(t, rng, deviceMachines[0]).Cores.reserved)
		c.Strategy = Strategy(rng.IntN(2))
		randomDevices(rng, &c)
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		b := randomBook(rng, m)
		for k := range c.Devices {
			for d := range c.Devices[k].Devices {
				if rng.IntN(4) == 0 {
					m.Devices.Take(b, DeviceRef{uint8(k), uint16(d)})
				}
			}
		}
		w := Want{Width: Width(rng.IntN(3)), CPUs: rng.IntN(3)}
		for k := range c.Devices {
			if rng.IntN(4) > 0 {
				w.Devices = append(w.Devices, DeviceWant{Kind: uint8(k), N: 1 + rng.IntN(2+len(c.Devices[k].Devices)/2), OnePerFunction: rng.IntN(3) == 0, All: rng.IntN(9) == 0})
			}
		}
		if w.Same = Same(rng.IntN(int(sames))); w.Same != Anywhere {
			w.SameHow = Strength(1 + rng.IntN(2))
		}
		switch rng.IntN(4) {
		case 0:
			w.Nodes = 1 + rng.IntN(m.space.Len())
			w.CPUs += rng.IntN(2)
		case 1:
			perNode(rng, m, &w)
		}
		got := compareDevices(t, m, &c, b, &w, fmt.Sprintf("seed %d, round %d", seed, i))
		seen[got.outcome]++
		together += b2i(got.together)
	}
	for _, o := range []PlaceResult{Placed, NoDevices, NotTogether, TooWide, NotExactly} {
		if seen[o] == 0 {
			t.Errorf("no case ended with %d", o)
		}
	}
	t.Logf("seed %d: %v, %d together", seed, seen, together)
}

// perNode makes a want request a number of devices on each NUMA node, mostly a possible one.
func perNode(rng *rand.Rand, m *Model, w *Want) {
	w.Nodes, w.PerNode = 1+rng.IntN(m.space.Len()), 1+rng.IntN(2)
	w.Same, w.SameHow, w.CPUs = Anywhere, Unset, w.CPUs%2*w.Nodes
	for i := range w.Devices {
		if rng.IntN(8) > 0 {
			w.Devices[i].N = w.Nodes * w.PerNode
		}
	}
}

type deviceOutcome struct {
	outcome  PlaceResult
	together bool
}

// compareDevices compares Place with the twin.
func compareDevices(t *testing.T, m *Model, c *Config, b *Book, w *Want, what string) deviceOutcome {
	t.Helper()
	try := m.NewTry()
	try.Begin(b)
	var g Grant
	got := try.Place(w, &g)
	tw := deviceTwin{twin{m, b, w}, c}
	want, ok := tw.place()
	compareHurried(t, tw, got, what)
	say := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s: %+v of %+v, free %b: %s", what, *w, c.Devices, b.devices, fmt.Sprintf(format, args...))
	}
	if (got == Placed) != ok {
		say("%v, the twin says %v %+v", got, ok, want)
	}
	if !ok {
		if !try.Book.Equal(b) {
			say("refused, and something was taken")
		}
		return deviceOutcome{got, false}
	}
	mine := make([][]int, len(w.Devices))
	for _, d := range g.Devices {
		i := slices.IndexFunc(w.Devices, func(w DeviceWant) bool { return w.Kind == d.Kind })
		if mine[i] = append(mine[i], int(d.Index)); !m.Devices.IsFree(b, d) {
			say("device %+v is not free", d)
		}
	}
	rank, valid := tw.rank(mine, g.Nodes, g.Together)
	if !valid || g.Together != (want.same && len(w.Devices) > 0) || rank != want.rank || g.Nodes != want.nodes && rank != want.rank {
		say("nodes %b, devices %v, together %v, rank %v (%v), the twin says %+v", g.Nodes, mine, g.Together, rank, valid, want)
	}
	held := Held{CPUs: g.CPUs, Alone: g.CPUs, Exclusive: g.Exclusive, Amounts: g.Amounts, Devices: g.Devices}
	again := m.NewBook()
	again.CopyFrom(b)
	if problem := m.Problem(again, &held); problem != "" {
		say("what was granted: %s", problem)
	}
	m.Take(again, &held)
	if !again.Equal(&try.Book) {
		say("Take comes to another book")
	}
	m.Give(again, &held)
	if !again.Equal(b) {
		say("Give does not give back")
	}
	return deviceOutcome{got, g.Together}
}

// compareHurried asks without a budget of steps. A want that can be placed is placed, but the
// choice may be worse. Three kinds of devices that must be together may be too hard.
func compareHurried(t *testing.T, tw deviceTwin, want PlaceResult, what string) {
	t.Helper()
	try := tw.m.NewTry()
	try.Budget = new(Budget)
	try.Begin(tw.b)
	var g Grant
	got := try.Place(tw.w, &g)
	if (got == Placed) != (want == Placed) && (len(tw.w.Devices) < 3 || tw.w.SameHow != Required || !g.Cut) {
		t.Fatalf("%s: %+v of %+v: %v without steps, %v with", what, *tw.w, tw.c.Devices, got, want)
	}
	if got != Placed {
		return
	}
	mine := make([][]int, len(tw.w.Devices))
	for _, d := range g.Devices {
		i := slices.IndexFunc(tw.w.Devices, func(w DeviceWant) bool { return w.Kind == d.Kind })
		mine[i] = append(mine[i], int(d.Index))
	}
	held := Held{CPUs: g.CPUs, Alone: g.CPUs, Exclusive: g.Exclusive, Amounts: g.Amounts, Devices: g.Devices}
	if _, valid := tw.rank(mine, g.Nodes, g.Together); !valid || tw.m.Problem(tw.b, &held) != "" {
		t.Fatalf("%s: %+v of %+v: without steps %+v", what, *tw.w, tw.c.Devices, g)
	}
}

// machineWith returns the model of a machine string. GPUs, NICs and virtual functions are its kinds
// of devices.
func machineWith(t testing.TB, text string) *Model {
	t.Helper()
	hw := shapes.Machine(text)
	c := configOf(text, topology.CPUSet{})
	gpus, nics, vfs := DeviceKind{Name: "gpu"}, DeviceKind{Name: "nic"}, DeviceKind{Name: "vf"}
	number := map[string]int{"": 0}
	of := func(name string) int {
		if _, known := number[name]; !known {
			number[name] = len(number)
		}
		return number[name]
	}
	at := map[string]int{}
	for i := range hw.Devices {
		d := &hw.Devices[i]
		kind := &nics
		switch {
		case d.Kind() == topology.GPU:
			kind = &gpus
			at[d.Address] = len(gpus.Devices)
		case d.Physical != "":
			kind = &vfs
		}
		kind.Devices = append(kind.Devices, Device{ID: d.Address, Node: int(d.NUMA), Root: of(d.Root), Switch: of(d.Switch), Function: of(d.Physical)})
	}
	for _, l := range hw.Links {
		gpus.Links = append(gpus.Links, DeviceLink{A: at[l.A], B: at[l.B], Count: int(l.Count)})
	}
	c.Devices = []DeviceKind{gpus, nics, vfs}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPairsOfTheSeed: on a server with eight GPUs, pods that want two get {0,3}, {1,2}, {4,7} and
// {5,6}. Kubernetes names these pairs in its explanation of GetPreferredAllocation.
func TestPairsOfTheSeed(t *testing.T) {
	m := machineWith(t, shapes.GPUMesh)
	for _, c := range []struct {
		n    int
		want string
	}{
		{2, "[[0 3] [1 2] [4 7] [5 6]]"},
		{4, "[[0 1 2 3] [4 5 6 7]]"},
		{8, "[[0 1 2 3 4 5 6 7]]"},
		{1, "[[0] [1] [2] [3] [4] [5] [6] [7]]"},
	} {
		try := m.NewTry()
		var got [][]int
		for {
			var g Grant
			if try.Place(&Want{Devices: []DeviceWant{{Kind: 0, N: c.n}}, Width: AnyWidth}, &g) != Placed {
				break
			}
			var set []int
			for _, d := range g.Devices {
				set = append(set, int(d.Index))
			}
			got = append(got, set)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%d at a time: got %v, want %s", c.n, got, c.want)
		}
	}
}

// TestBothFreeElsewhere: a GPU and a NIC of one switch are found although the switch with the first
// free GPU has no free NIC. Koordinator chooses the GPU first and then fails.
func TestBothFreeElsewhere(t *testing.T) {
	m := machineWith(t, shapes.GPUMesh)
	for _, same := range []Same{SameSwitch, OneSwitch} {
		try := m.NewTry()
		m.Devices.Take(&try.Book, DeviceRef{1, 0})
		var g Grant
		w := Want{Devices: []DeviceWant{{Kind: 0, N: 1}, {Kind: 1, N: 1}}, Same: same, SameHow: Required, Width: One}
		if got := try.Place(&w, &g); got != Placed || fmt.Sprint(g.Devices) != "[{0 2} {1 1}]" {
			t.Errorf("got %v %v, want GPU 2 and NIC 1", got, g.Devices)
		}
		for n := range 4 {
			m.Devices.Take(&try.Book, DeviceRef{1, uint16(n)})
		}
		if got := try.Place(&w, &g); got != NoDevices {
			t.Errorf("without NICs: got %v", got)
		}
	}
}

// TestVirtualFunctions: one of each physical function, or all of one physical function.
func TestVirtualFunctions(t *testing.T) {
	m := machineWith(t, shapes.GPUSwitched)
	for _, c := range []struct {
		w    DeviceWant
		want string
	}{
		{DeviceWant{Kind: 2, N: 2}, "[0000:25:00.1 0000:25:00.2]"},
		{DeviceWant{Kind: 2, N: 2, OnePerFunction: true}, "[0000:25:00.1 0000:26:00.1]"},
		{DeviceWant{Kind: 2, N: 3, OnePerFunction: true}, "[0000:25:00.1 0000:26:00.1 0000:a5:00.1]"},
		{DeviceWant{Kind: 2, N: 5, OnePerFunction: true}, "no devices"},
		{DeviceWant{Kind: 2, All: true}, "[0000:25:00.1 0000:26:00.1 0000:a5:00.1 0000:a6:00.1]"},
	} {
		try := m.NewTry()
		var g Grant
		got := try.Place(&Want{Devices: []DeviceWant{c.w}, Width: AnyWidth}, &g).String()
		var ids []string
		for _, d := range g.Devices {
			ids = append(ids, m.Devices.ID(d))
		}
		if ids != nil {
			got = fmt.Sprint(ids)
		}
		if got != c.want {
			t.Errorf("%+v: got %s, want %s", c.w, got, c.want)
		}
	}
}

// TestSickDevices: a container keeps its device when the device becomes unhealthy, and no other
// container gets the device then or later. Take and release ignore devices that do not exist.
func TestSickDevices(t *testing.T) {
	c := configOf(deviceMachines[0], topology.CPUSet{})
	c.Devices = []DeviceKind{{Name: "g", Devices: []Device{{ID: "b"}, {ID: "c", Unhealthy: true}, {ID: "a"}}}}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	find := func(id string) DeviceRef {
		d, ok := m.Devices.Find(0, id)
		if !ok || m.Devices.ID(d) != id {
			t.Fatalf("device %s: %v %v", id, d, ok)
		}
		return d
	}
	if _, ok := m.Devices.Find(0, "d"); ok {
		t.Error("a device was found that does not exist")
	}
	b := m.NewBook()
	held := &Held{Devices: []DeviceRef{find("a")}}
	if p := m.Problem(b, held); p != "" {
		t.Error(p)
	}
	m.Take(b, held)
	m.Devices.MarkSick(b, find("a"))
	if want := "another pod has g a"; m.Problem(b, held) != want {
		t.Errorf("%q, want %q", m.Problem(b, held), want)
	}
	m.Give(b, held)
	for id, free := range map[string]bool{"a": false, "b": true, "c": false} {
		if m.Devices.IsFree(b, find(id)) != free || m.Devices.IsTaken(b, find(id)) {
			t.Errorf("%s: free %v, taken %v", id, m.Devices.IsFree(b, find(id)), m.Devices.IsTaken(b, find(id)))
		}
	}
	m.Take(b, &Held{Devices: []DeviceRef{{0, 3}, {1, 0}}}) // there is no such device: no effect
	if want := m.NewBook(); !b.Equal(want) {
		m.Devices.MarkSick(want, find("a"))
		if !b.Equal(want) {
			t.Error("something is left of devices that were given back")
		}
	}
}

func TestDevicesRefused(t *testing.T) {
	base := func(kinds ...DeviceKind) Config {
		c := configOf(deviceMachines[1], topology.CPUSet{})
		c.Devices = kinds
		return c
	}
	many := DeviceKind{Name: "many", Devices: make([]Device, MaxDevices+1)}
	wide := DeviceKind{Name: "wide"}
	for i := range MaxPlaces + 1 {
		wide.Devices = append(wide.Devices, Device{Root: i})
	}
	for _, c := range []struct {
		kind DeviceKind
		want string
	}{
		{many, "many: 4097 devices: want at most 4096"},
		{wide, "devices at 65 switches and root complexes: want at most 64"},
		{DeviceKind{Name: "g", Devices: []Device{{ID: "a"}, {ID: "a"}}}, "g a: want each device once"},
		{DeviceKind{Name: "far", Devices: []Device{{ID: "x", Node: 2}}}, "far x: NUMA node at position 2: want a position from 0 to 1, or -1 for none"},
		{DeviceKind{Name: "far", Devices: []Device{{ID: "x", Node: -2}}}, "NUMA node at position -2"},
		{DeviceKind{Name: "g", Devices: []Device{{ID: "a"}, {ID: "b"}}, Links: []DeviceLink{{0, 0, 1}}}, "want different positions A and B from 0 to 1"},
		{DeviceKind{Name: "g", Devices: []Device{{ID: "a"}, {ID: "b"}}, Links: []DeviceLink{{0, 2, 1}}}, "want different positions A and B from 0 to 1"},
		{DeviceKind{Name: "g", Devices: []Device{{ID: "a"}, {ID: "b"}}, Links: []DeviceLink{{0, 1, 1}, {1, 0, 2}}}, "want each pair of devices once"},
	} {
		if _, err := New(base(c.kind)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want ...%s...", err, c.want)
		}
	}
}

// jointWant is the request of the benchmarks: 16 CPUs, memory, huge pages, and 4 of 8 GPUs and 2
// NICs of one PCIe switch.
func jointWant(m *Model) Want {
	memory, _ := m.Amounts.Kind("memory")
	huge, _ := m.Amounts.Kind("hugepages-2Mi")
	return Want{CPUs: 16, Amounts: []Amount{{memory, 32 << 30}, {huge, 4 << 30}}, Devices: []DeviceWant{{Kind: 0, N: 4}, {Kind: 1, N: 2}}, Same: OneSwitch, SameHow: Required, Width: Fewest}
}

// jointOccupancies returns random states of a machine with eight NUMA nodes.
func jointOccupancies(b *testing.B, m *Model, n int) []*Book {
	b.Helper()
	rng := rand.New(rand.NewPCG(17, 4))
	out := make([]*Book, n)
	try := m.NewTry()
	var g Grant
	for i := range out {
		try.beginEmpty()
		for range rng.IntN(12) {
			w := Want{CPUs: 1 + rng.IntN(24), Width: Width(rng.IntN(3))}
			for k := range 2 {
				if rng.IntN(3) == 0 {
					w.Devices = append(w.Devices, DeviceWant{Kind: uint8(k), N: 1 + rng.IntN(2)})
				}
			}
			try.Place(&w, &g)
		}
		out[i] = m.NewBook()
		out[i].CopyFrom(&try.Book)
	}
	return out
}

// benchJoint reports the median and the 99th percentile of the decisions that find room. us-worst
// is the time of the slowest occupancy. For each occupancy it uses the best of 15 decisions,
// because other processes interrupt some decisions.
func benchJoint(b *testing.B, m *Model, w Want, n int) {
	books := jointOccupancies(b, m, n)
	try := m.NewTry()
	var g Grant
	placed := 0
	for i := range books {
		try.Begin(books[i])
		placed += b2i(try.Place(&w, &g) == Placed)
	}
	worst := time.Duration(0)
	for i := range books {
		best := time.Hour
		for range 15 {
			start := time.Now()
			try.Begin(books[i])
			try.Place(&w, &g)
			best = min(best, time.Since(start))
		}
		worst = max(worst, best)
	}
	took := make([]time.Duration, 0, n)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		try.Begin(books[i%n])
		if try.Place(&w, &g) == Placed && i < n { // refusals are faster
			took = append(took, time.Since(start))
		}
	}
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1000, "us-p50")
	b.ReportMetric(float64(placed)/float64(n), "placed")
	b.ReportMetric(float64(took[len(took)*99/100])/1000, "us-p99")
	b.ReportMetric(float64(worst)/1000, "us-worst")
}

// BenchmarkJoint measures a decision about all kinds of resources, on an empty machine and on
// 10,000 random occupancies.
func BenchmarkJoint(b *testing.B) {
	m := machineWith(b, strings.Replace(shapes.GPUSwitched, "2Mi=0", "2Mi=8192", 1))
	b.Run("Empty", func(b *testing.B) {
		w, try := jointWant(m), m.NewTry()
		var g Grant
		b.ReportAllocs()
		for b.Loop() {
			if try.beginEmpty(); try.Place(&w, &g) != Placed {
				b.Fatal("no room")
			}
		}
	})
	b.Run("OneSwitch", func(b *testing.B) { benchJoint(b, m, jointWant(m), 10_000) })
	w := jointWant(m)
	w.SameHow = Preferred
	b.Run("SwitchPreferred", func(b *testing.B) { benchJoint(b, m, w, 10_000) })
	w.Same, w.SameHow = Anywhere, Unset
	b.Run("Anywhere", func(b *testing.B) { benchJoint(b, m, w, 10_000) })
	mesh := machineWith(b, shapes.GPUMesh)
	w = Want{CPUs: 16, Devices: []DeviceWant{{Kind: 0, N: 4}, {Kind: 1, N: 2}}, Same: SameSwitch, SameHow: Required, Width: Fewest}
	b.Run("Mesh", func(b *testing.B) { benchJoint(b, mesh, w, 10_000) })
}

// TestPlaceDevicesNoAllocations: a decision with devices allocates nothing.
func TestPlaceDevicesNoAllocations(t *testing.T) {
	for _, text := range []string{shapes.GPUSwitched, shapes.GPUMesh} {
		m := machineWith(t, strings.Replace(text, "2Mi=0", "2Mi=8192", 1))
		try := m.NewTry()
		w := jointWant(m)
		w.Same, w.SameHow = SameSwitch, Preferred
		var g Grant
		if n := testing.AllocsPerRun(100, func() { try.beginEmpty(); try.Place(&w, &g) }); n > 0 || len(g.Devices) != 6 {
			t.Errorf("%v allocations, %d devices", n, len(g.Devices))
		}
		w.Same, w.SameHow, w.Nodes, w.PerNode, w.Devices = Anywhere, Unset, 2, 1, []DeviceWant{{Kind: 0, N: 2}, {Kind: 1, N: 2}}
		if n := testing.AllocsPerRun(100, func() { try.beginEmpty(); try.Place(&w, &g) }); n > 0 || len(g.Devices) != 4 || g.Nodes.Len() != 2 {
			t.Errorf("%v allocations, %d devices on NUMA nodes %b, one on each of two", n, len(g.Devices), g.Nodes)
		}
	}
}

// beginEmpty begins with a machine on which no resource is taken.
func (t *Try) beginEmpty() { t.Book.CopyFrom(t.m.empty) }
