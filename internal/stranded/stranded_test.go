package stranded

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const gpu = "x.y/gpu"

// numa is a NUMA node of "cpu=FREE/TOTAL memory=FREE/TOTAL x.y/gpu=FREE/TOTAL".
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
	for name, c := range map[string]struct{ node, want string }{
		"nothing is taken":                {"cpu=60/60 memory=64/64 x.y/gpu=4/4", ""},
		"all in proportion":               {"cpu=30/60 memory=32/64 x.y/gpu=2/4", ""},
		"GPUs without CPUs":               {"cpu=0/60 memory=64/64 x.y/gpu=4/4", "memory: 64 beside cpu, x.y/gpu: 4 beside cpu"},
		"GPUs with too few CPUs":          {"cpu=20/60 memory=64/64 x.y/gpu=2/4", "memory: 43 beside cpu, x.y/gpu: 1 beside cpu"},
		"CPUs without memory":             {"cpu=60/60 memory=0/64", "cpu: 60 beside memory"},
		"what strands more is the reason": {"cpu=30/60 memory=16/64 x.y/gpu=4/4", "cpu: 15 beside memory, x.y/gpu: 3 beside memory"},
		"less than a tenth does not":      {"cpu=60/60 memory=61/64", ""},
		"GPUs strand nothing":             {"cpu=60/60 memory=64/64 x.y/gpu=0/4", ""},
		"nobody pins CPUs":                {"memory=32/64 x.y/gpu=4/4", "x.y/gpu: 2 beside memory"},
		"no rounding error":               {"cpu=29/100 x.y/gpu=29/100", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range numa(t, c.node).Parts() {
				if p.Stranded > 0 {
					got = append(got, fmt.Sprintf("%s: %d beside %s", p.Resource, p.Stranded, p.Beside.Resource))
				}
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// TestPartsAgainstCounting: as many of a resource are of use as can be taken one by one while each
// finds its share of CPUs and of memory.
func TestPartsAgainstCounting(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 3))
	for range 2000 {
		amount := func(name string, most uint64) string {
			total := r.Uint64N(most)
			return fmt.Sprintf("%s=%d/%d ", name, r.Uint64N(total+1), total)
		}
		n := numa(t, amount(CPU, 130)+amount(Memory, 300)+amount(gpu, 9))
		for _, p := range n.Parts() {
			want := uint64(0)
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
			if p.Stranded != want {
				t.Fatalf("%+v: %d of %s stranded, want %d", n, p.Stranded, p.Resource, want)
			}
		}
	}
}
