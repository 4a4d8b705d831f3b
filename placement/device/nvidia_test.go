package device

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/test/conformance/nvidia"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// gpus is a pool with NVIDIA's order of preference, and a plugin with the same devices.
type gpus struct {
	pool   *Pool
	plugin nvidia.Plugin
	points []uint32
}

func newGPUs(ids []string, points []uint32) *gpus {
	g := &gpus{points: points}
	var devices []Device
	for _, id := range ids {
		devices = append(devices, Device{ID: id, Mask: 1, HasTopology: true, HasNodes: true, Healthy: true})
	}
	space, _ := hint.NewSpace(1)
	g.pool = NewPool(space, devices, Options{NVIDIA: true, Points: points})
	g.plugin = nvidia.Plugin{IDs: ids, Points: func(a, b string) int {
		return int(points[slices.Index(ids, a)*len(ids)+slices.Index(ids, b)])
	}}
	return g
}

// answers returns the plugin's answers to the question in every order of the devices.
func (g *gpus) answers(free, held []string, size int) map[string]bool {
	out := map[string]bool{}
	permute(append(slices.Clone(held), free...), 0, func(order []string) {
		ids, err := g.plugin.Preferred(order, held, size)
		if err != nil {
			out["fails"] = true
			return
		}
		out[strings.Join(slices.Sorted(slices.Values(ids)), " ")] = true
	})
	return out
}

func permute(a []string, from int, visit func([]string)) {
	if from == len(a) {
		visit(a)
		return
	}
	for i := from; i < len(a); i++ {
		a[from], a[i] = a[i], a[from]
		permute(a, from+1, visit)
		a[from], a[i] = a[i], a[from]
	}
}

// take asks the pool the same question.
func (g *gpus) take(t *testing.T, free, held []string, size int) (ids []string, chance bool) {
	t.Helper()
	inUse, out, reusable := make(Set, g.pool.Words()), make(Set, g.pool.Words()), make(Set, g.pool.Words())
	for i := range g.pool.Len() {
		switch id := g.pool.ID(i); {
		case slices.Contains(held, id):
			reusable.Add(i)
			inUse.Add(i)
		case !slices.Contains(free, id):
			inUse.Add(i)
		}
	}
	chance, ok := g.pool.Take(&Taking{N: size, InUse: inUse, Reusable: reusable, Hint: hint.Hint{Mask: 1}, Prefer: NVIDIA}, out)
	if !ok {
		t.Fatal("too few devices")
	}
	for i := range out.All() {
		ids = append(ids, g.pool.ID(i))
	}
	return ids, chance
}

// TestNVIDIAOrder: if the pool predicts a certain choice, the plugin makes this choice in every
// order of the devices. If the pool predicts a random choice, the plugin has several answers, and
// the pool's is one of them.
func TestNVIDIAOrder(t *testing.T) {
	certain, open := 0, 0
	for seed := range uint64(900) {
		r := rand.New(rand.NewPCG(seed, 17))
		n := 1 + r.IntN(6)
		var ids []string
		for i := range n {
			id := fmt.Sprintf("GPU-%02d", i)
			switch kind := seed % 4; {
			case kind == 1:
				id = fmt.Sprintf("GPU-%02d::%d", r.IntN(3), i)
			case kind == 2 && r.IntN(8) == 0:
				id = fmt.Sprintf("MIG-%02d", i)
			}
			ids = append(ids, id)
		}
		points := make([]uint32, n*n)
		for i := range n {
			for j := range i {
				points[i*n+j] = []uint32{10, 20, 50, 110, 250}[r.IntN(5)]
				if seed%8 == 0 {
					points[i*n+j] = 10 * (1 + r.Uint32N(1000))
				}
				points[j*n+i] = points[i*n+j]
			}
		}
		g := newGPUs(ids, points)
		var free, held []string
		for _, id := range ids {
			switch r.IntN(6) {
			case 0:
			case 1:
				held = append(held, id)
			default:
				free = append(free, id)
			}
		}
		if len(free) == 0 {
			continue
		}
		size := len(held) + 1 + r.IntN(len(free))
		got, chance := g.take(t, free, held, size)
		if size == len(held)+len(free) {
			continue // the plugin is not asked
		}
		answers := g.answers(free, held, size)
		told := strings.Join(got, " ")
		if !answers[told] || chance != (len(answers) > 1) {
			t.Fatalf("seed %d: %d of %v, held %v, points %v: %s, chance %v; the plugin says %v", seed, size, free, held, points, told, chance, slices.Sorted(maps.Keys(answers)))
		}
		if chance {
			open++
		} else {
			certain++
		}
	}
	t.Logf("%d certain, %d left to chance", certain, open)
	if certain < 100 || open < 100 {
		t.Error("want 100 of both at least")
	}
}

// TestNVIDIAMesh has the choices on a machine whose GPUs have links of different widths.
func TestNVIDIAMesh(t *testing.T) {
	m := shapes.Machine(shapes.GPUMesh)
	var ids, addresses []string
	for i := range m.Devices {
		if d := &m.Devices[i]; d.Kind() == topology.GPU {
			ids, addresses = append(ids, fmt.Sprintf("GPU-%d", len(ids))), append(addresses, d.Address)
		}
	}
	points := PointsOf(m, addresses)
	if got, want := points[:8], []uint32{0, 150, 130, 230, 210, 10, 10, 10}; !slices.Equal(got, want) {
		t.Errorf("points of the first GPU: %v, want %v", got, want)
	}
	g := newGPUs(ids, points)
	for _, c := range []struct {
		free string
		n    int
		want string // "" if the choice is random
	}{
		{"01234567", 4, ""},
		{"0123456", 4, "0123"},
		{"1234567", 4, "4567"},
		{"0134", 2, "04"}, // with {1, 3}: better together than {0, 3} with {1, 4}
		{"0167", 2, "67"},
		{"012", 2, "12"},
		{"01", 1, ""},
	} {
		var free []string
		for _, i := range c.free {
			free = append(free, "GPU-"+string(i))
		}
		got, chance := g.take(t, free, nil, c.n)
		told := strings.ReplaceAll(strings.Join(got, ""), "GPU-", "")
		if chance != (c.want == "") || !chance && told != c.want {
			t.Errorf("%d of %s: %s, chance %v, want %q", c.n, c.free, told, chance, c.want)
		}
	}
}

// TestNVIDIAUnknown: the choice counts as random without connections, with too many GPUs, and if
// the pool is made without NVIDIA's order.
func TestNVIDIAUnknown(t *testing.T) {
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("GPU-%02d", i))
	}
	for name, g := range map[string]*gpus{"no points": newGPUs(ids[:4], nil), "many": newGPUs(ids, make([]uint32, 400))} {
		if got, chance := g.take(t, g.plugin.IDs, nil, 2); !chance || len(got) != 2 {
			t.Errorf("%s: %v, chance %v", name, got, chance)
		}
	}
	g := newGPUs(ids[:4], nil)
	g.pool = NewPool(g.pool.space, []Device{{ID: "a", Healthy: true, Mask: 1, HasTopology: true, HasNodes: true}, {ID: "b", Healthy: true, Mask: 1, HasTopology: true, HasNodes: true}}, Options{})
	if got, chance := g.take(t, []string{"a", "b"}, nil, 1); !chance || len(got) != 1 {
		t.Errorf("not compiled: %v, chance %v", got, chance)
	}
	m := shapes.Machine(shapes.GPUMesh)
	if PointsOf(m, []string{"0000:06:00.0", "0000:ff:00.0"}) != nil || PointsOf(m, slices.Repeat([]string{"0000:06:00.0"}, 65)) != nil {
		t.Error("points of an unknown device, or of too many")
	}
}

// TestDivisions: divisions returns the length of the plugin's own list.
func TestDivisions(t *testing.T) {
	for _, c := range []struct{ n, size, want int }{{8, 2, 105}, {8, 4, 35}, {8, 3, 280}, {8, 5, 56}, {7, 2, 105}, {4, 4, 1}, {16, 8, 6435}, {10, 2, 945}} {
		if got := divisions(c.n, c.size); got != c.want {
			t.Errorf("%d in sets of %d: %d, want %d", c.n, c.size, got, c.want)
		}
	}
	if divisions(16, 3) <= maxDivisions {
		t.Error("16 GPUs in threes are too many")
	}
}

// BenchmarkNVIDIA takes 1 to 4 of 8 GPUs.
func BenchmarkNVIDIA(b *testing.B) {
	m := shapes.Machine(shapes.GPUMesh)
	var ids, addresses []string
	for i := range m.Devices {
		if d := &m.Devices[i]; d.Kind() == topology.GPU {
			ids, addresses = append(ids, "GPU-"+d.Address), append(addresses, d.Address)
		}
	}
	g := newGPUs(ids, PointsOf(m, addresses))
	inUse, out := make(Set, 1), make(Set, 1)
	for _, n := range []int{1, 2, 3, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				clear(out)
				if _, ok := g.pool.Take(&Taking{N: n, InUse: inUse, Hint: hint.Hint{Mask: 1}, Prefer: NVIDIA}, out); !ok {
					b.Fatal("too few devices")
				}
			}
		})
	}
}
