package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// wideQuestion returns a machine with 16 NUMA nodes, and a pod of eight containers that want two
// GPUs each on one NUMA node. The six lowest NUMA nodes have three GPUs each, at one switch each.
// There are enough GPUs for each container, and for all together, but no order of the containers
// gives each its GPUs.
func wideQuestion(t testing.TB) (*placement.State, placement.Request) {
	t.Helper()
	cfg := obeying()
	gpus, pool := placement.DeviceKind{Resource: "x/gpu", Type: topology.GPU}, placement.DevicePool{Resource: "x/gpu", Decided: true}
	for i := range 18 {
		id := fmt.Sprintf("g%02d", i)
		gpus.Devices = append(gpus.Devices, placement.PlacedDevice{ID: id, NUMA: topology.NUMAID(i / 3), HasNUMA: true, Root: "r" + id, Switch: "s" + id})
		pool.Devices = append(pool.Devices, placement.Device{ID: id})
	}
	cfg.Devices = []placement.DeviceKind{gpus}
	m := made.ModelOf(t, machine{2, 8, 16, 2, 64 << 30, 0}.view(), cfg)
	s := m.NewState()
	s.SetPool(pool)
	r := guaranteed("x", placement.Rules{Policy: placement.PolicySingleNUMANode})
	for i := range 8 {
		c := app(fmt.Sprint("c", i), 1000, 1)
		c.Devices = []placement.DeviceRequest{{Resource: "x/gpu", Count: 2}}
		r.Containers = append(r.Containers, c)
	}
	return s, r
}

// TestAPodsSearchIsBounded: the orders of a pod's containers share one budget. When the budget is
// used up, the verdict and the sentence for users report this, and the refusal does not count as
// final.
func TestAPodsSearchIsBounded(t *testing.T) {
	s, r := wideQuestion(t)
	v := placement.Admit(s, &r)
	if v.OK() || !v.Cut || v.Scarcity != placement.Resolvable {
		t.Errorf("%+v: want a refusal that was cut off and may be resolvable", v)
	}
	if why := placement.Explain(s, &r); !why.Cut || !strings.Contains(why.String(), "did not try every placement") {
		t.Errorf("%+v: %s", why, why)
	}
	r.Containers = r.Containers[:6]
	if v := placement.Admit(s, &r); !v.OK() || v.Cut {
		t.Errorf("six containers: %+v", v)
	}
	r.Containers[5].Devices[0].Count = 4
	if v := placement.Admit(s, &r); v.OK() || v.Cut || v.Detail != placement.TooWide {
		t.Errorf("four on one NUMA node: %+v: want a refusal that is proven", v)
	}
}

// BenchmarkPodsSearch measures the question of TestAPodsSearchIsBounded.
func BenchmarkPodsSearch(b *testing.B) {
	s, r := wideQuestion(b)
	b.ReportAllocs()
	for b.Loop() {
		placement.Admit(s, &r)
	}
}
