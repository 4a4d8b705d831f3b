package stranded

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const gpu = "x.y/gpu"

// numa parses a NUMA node from "cpu=FREE/TOTAL memory=FREE/TOTAL x.y/gpu=FREE/TOTAL".
func numa(t *testing.T, text string) *NUMANode {
	t.Helper()
	out := new(NUMANode)
	for _, one := range strings.Fields(text) {
		name, amounts, _ := strings.Cut(one, "=")
		a := Amount{Resource: name}
		if _, err := fmt.Sscanf(amounts, "%d/%d", &a.Free, &a.Total); err != nil {
			t.Fatal(err)
		}
		switch name {
		case CPU:
			out.CPUs = &Amount{Free: a.Free, Total: a.Total}
		case Memory:
			out.Memory = append(out.Memory, a)
		default:
			out.Devices = append(out.Devices, a)
		}
	}
	return out
}

func TestParts(t *testing.T) {
	twos := []Shape{{CPUs: 20, Memory: 8, Devices: map[string]uint64{gpu: 2}}}
	per := map[string]int{gpu: 8}
	for name, c := range map[string]struct {
		node  string
		wants Wants
		want  string
	}{
		"nothing is taken":                 {"cpu=60/60 memory=64/64 x.y/gpu=4/4", Wants{}, ""},
		"all in proportion":                {"cpu=30/60 memory=32/64 x.y/gpu=2/4", Wants{}, ""},
		"GPUs without CPUs":                {"cpu=0/60 memory=64/64 x.y/gpu=4/4", Wants{}, "memory: 64 beside cpu, x.y/gpu: 4 beside cpu (no pod asks for it, so one CPU for each would be enough)"},
		"a NIC beside most CPUs":           {"cpu=54/62 memory=60/64 x.y/gpu=2/2", Wants{}, ""},
		"some CPUs, and nobody asks":       {"cpu=3/60 memory=64/64 x.y/gpu=4/4", Wants{}, "memory: 61 beside cpu, x.y/gpu: 1 beside cpu (no pod asks for it, so one CPU for each would be enough)"},
		"fewer CPUs than cpusPerDevice":    {"cpu=31/60 memory=64/64 x.y/gpu=4/4", Wants{PerDevice: per}, "memory: 31 beside cpu, x.y/gpu: 1 beside cpu (cpusPerDevice: 8)"},
		"as many as cpusPerDevice":         {"cpu=32/60 memory=36/64 x.y/gpu=4/4", Wants{PerDevice: per, Shapes: twos}, ""},
		"a shape fits once":                {"cpu=30/60 memory=32/64 x.y/gpu=4/4", Wants{Shapes: twos}, "x.y/gpu: 2 beside cpu (no waiting or recent pod could use it)"},
		"too little memory for a shape":    {"cpu=60/60 memory=60/64 x.y/gpu=4/4", Wants{Shapes: []Shape{{CPUs: 1, Memory: 50, Devices: map[string]uint64{gpu: 1}}}}, "x.y/gpu: 3 beside memory (no waiting or recent pod could use it)"},
		"one left, and all want two":       {"cpu=60/60 memory=64/64 x.y/gpu=1/4", Wants{Shapes: twos}, "x.y/gpu: 1 beside  (no waiting or recent pod could use it)"},
		"the shape that leaves least":      {"cpu=60/60 memory=64/64 x.y/gpu=3/4", Wants{Shapes: append([]Shape{{CPUs: 2, Devices: map[string]uint64{gpu: 1}}}, twos...)}, ""},
		"a shape of several NUMA nodes":    {"cpu=60/60 memory=64/64 x.y/gpu=4/4", Wants{Shapes: []Shape{{CPUs: 96, Memory: 64, Devices: map[string]uint64{gpu: 8}}}}, ""},
		"a shape of other devices is none": {"cpu=60/60 memory=64/64 x.y/gpu=1/4", Wants{Shapes: []Shape{{CPUs: 4, Devices: map[string]uint64{"x.y/nic": 1}}}}, ""},
		"CPUs without memory":              {"cpu=60/60 memory=0/64", Wants{}, "cpu: 60 beside memory"},
		"less than a tenth does not":       {"cpu=60/60 memory=61/64", Wants{}, ""},
		"GPUs strand nothing":              {"cpu=60/60 memory=64/64 x.y/gpu=0/4", Wants{}, ""},
		"nobody pins CPUs":                 {"memory=32/64 x.y/gpu=4/4", Wants{PerDevice: per}, ""},
		"no rounding error":                {"cpu=29/100 x.y/gpu=29/100", Wants{}, ""},
		"what strands more is the reason":  {"cpu=30/60 memory=16/64", Wants{}, "cpu: 15 beside memory"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range numa(t, c.node).Parts(&c.wants) {
				if p.Stranded > 0 {
					text := fmt.Sprintf("%s: %d beside %s", p.Resource, p.Stranded, p.Beside.Resource)
					if p.Resource == gpu {
						text += " (" + p.Rule + ")"
					}
					got = append(got, text)
				}
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// TestPartsAgainstCounting: units of a resource are usable as long as each of them finds its share
// of CPUs and memory. Devices are usable as long as whole pods of the best shape fit.
func TestPartsAgainstCounting(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 3))
	for range 2000 {
		amount := func(name string, most uint64) string {
			total := r.Uint64N(most)
			return fmt.Sprintf("%s=%d/%d ", name, r.Uint64N(total+1), total)
		}
		n := numa(t, amount(CPU, 130)+amount(Memory, 300)+amount(gpu, 9))
		var w Wants
		for range r.IntN(3) {
			w.Shapes = append(w.Shapes, Shape{CPUs: r.Uint64N(40), Memory: r.Uint64N(60), Devices: map[string]uint64{gpu: 1 + r.Uint64N(2)}})
		}
		for _, p := range n.Parts(&w) {
			want := uint64(0)
			if p.Resource == gpu {
				want = countedDevices(n, p, w.Shapes)
			} else {
				for _, other := range n.Amounts() {
					if other.Resource == p.Resource || other.Resource == gpu || other.Total == 0 {
						continue
					}
					useful := uint64(0)
					for useful < p.Free && (useful+1)*other.Total <= other.Free*p.Total {
						useful++
					}
					if lost := p.Free - useful; lost >= p.worthwhile() {
						want = max(want, lost)
					}
				}
			}
			if p.Stranded != want {
				t.Fatalf("%+v, %+v: %d of %s stranded, want %d", n, w, p.Stranded, p.Resource, want)
			}
		}
	}
}

// countedDevices takes as many pods of one shape as possible away, and returns the devices that the
// best shape leaves.
func countedDevices(n *NUMANode, p Part, shapes []Shape) uint64 {
	if len(shapes) == 0 {
		shapes = []Shape{{CPUs: 1, Memory: 1, Devices: map[string]uint64{gpu: 1}}}
	}
	least := p.Free
	for _, s := range shapes {
		each, cpus, memory := s.Devices[gpu], s.CPUs, s.Memory
		if each > p.Total {
			each, cpus, memory = p.Total, cpus*p.Total/each, memory*p.Total/each
		}
		devices, freeCPUs, freeMemory := p.Free, n.CPUs.Free, n.Memory[0].Free
		for devices >= each && freeCPUs >= cpus && freeMemory >= memory {
			devices, freeCPUs, freeMemory = devices-each, freeCPUs-cpus, freeMemory-memory
		}
		least = min(least, devices)
	}
	return least
}
