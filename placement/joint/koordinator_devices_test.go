package joint

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/berth-dev/berth/topology"
)

// koordinatorDevices are choices of Koordinator's device allocator that its authors publish
// (pkg/scheduler/plugins/deviceshare, joint allocation of GPUs and RDMA), told in our own form:
// GPUs and cards by PCIe, 0 and 1 being on NUMA node 0, 2 and 3 on node 1.
var koordinatorDevices = []struct {
	name        string
	gpus, cards []int // by device, the PCIe
	vfs         int   // virtual functions of each card, which are then what is asked for
	oneNode     bool
	taken       []DeviceRef // of kinds 0 GPU, 1 card
	want        []DeviceWant
	koordinator string
	reason      string // why it is another one here
}{
	{
		name: "one card with two GPUs at each PCIe, GPUs 0 to 3 taken, four GPUs", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3},
		taken: []DeviceRef{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}}, want: []DeviceWant{{Kind: 0, N: 4}, {Kind: 1, N: 2}},
		koordinator: "[{0 4} {0 5} {0 6} {0 7} {1 2} {1 3}]",
	},
	{
		name: "two cards with two GPUs at each PCIe, GPUs 0 to 3 taken, four GPUs and four cards", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3, 0, 1, 2, 3},
		taken: []DeviceRef{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}}, want: []DeviceWant{{Kind: 0, N: 4}, {Kind: 1, N: 4}},
		koordinator: "[{0 4} {0 5} {0 6} {0 7} {1 2} {1 3} {1 6} {1 7}]",
	},
	{
		name: "three cards at the first PCIe, one at each other, a GPU at each", gpus: []int{0, 1, 2, 3}, cards: []int{0, 0, 0, 1, 2, 3}, oneNode: true,
		want: []DeviceWant{{Kind: 0, N: 4}, {Kind: 1, N: 4}}, koordinator: "[{0 0} {0 1} {0 2} {0 3} {1 0} {1 3} {1 4} {1 5}]",
	},
	{
		name: "four GPUs, and all cards", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3}, oneNode: true,
		want: []DeviceWant{{Kind: 0, N: 4}, {Kind: 1, All: true}}, koordinator: "[{0 0} {0 1} {0 2} {0 3} {1 0} {1 1} {1 2} {1 3}]",
		reason: "a GPU beside each card: all cards lie at four PCIes, so each of them has a GPU",
	},
	{
		name: "thirty virtual functions of a card at each PCIe, one GPU", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3}, vfs: 30,
		want: []DeviceWant{{Kind: 0, N: 1}, {Kind: 1, N: 1, OnePerFunction: true}}, koordinator: "[{0 0} {1 0}]",
	},
	{
		name: "two GPUs and a function", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3}, vfs: 30,
		want: []DeviceWant{{Kind: 0, N: 2}, {Kind: 1, N: 1, OnePerFunction: true}}, koordinator: "[{0 0} {0 1} {1 0}]",
	},
	{
		name: "three GPUs and two functions", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3}, vfs: 30,
		want: []DeviceWant{{Kind: 0, N: 3}, {Kind: 1, N: 2, OnePerFunction: true}}, koordinator: "[{0 0} {0 1} {0 2} {1 0} {1 30}]",
	},
	{
		name: "four GPUs and two functions", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3}, vfs: 30,
		want: []DeviceWant{{Kind: 0, N: 4}, {Kind: 1, N: 2, OnePerFunction: true}}, koordinator: "[{0 0} {0 1} {0 2} {0 3} {1 0} {1 30}]",
	},
	{
		name: "six GPUs and three functions", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3}, vfs: 30,
		want: []DeviceWant{{Kind: 0, N: 6}, {Kind: 1, N: 3, OnePerFunction: true}}, koordinator: "[{0 0} {0 1} {0 2} {0 3} {0 4} {0 5} {1 0} {1 30} {1 60}]",
	},
	{
		name: "eight GPUs and four functions", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3}, vfs: 30,
		want:        []DeviceWant{{Kind: 0, N: 8}, {Kind: 1, N: 4, OnePerFunction: true}},
		koordinator: "[{0 0} {0 1} {0 2} {0 3} {0 4} {0 5} {0 6} {0 7} {1 0} {1 30} {1 60} {1 90}]",
	},
	{
		name: "two GPUs and a function, the first of each taken", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3}, vfs: 30,
		taken: []DeviceRef{{0, 0}, {1, 0}}, want: []DeviceWant{{Kind: 0, N: 2}, {Kind: 1, N: 1, OnePerFunction: true}},
		koordinator: "[{0 2} {0 3} {1 30}]",
	},
	{
		name: "three GPUs and two functions, the first of each taken", gpus: []int{0, 0, 1, 1, 2, 2, 3, 3}, cards: []int{0, 1, 2, 3}, vfs: 30,
		taken: []DeviceRef{{0, 0}, {1, 0}}, want: []DeviceWant{{Kind: 0, N: 3}, {Kind: 1, N: 2, OnePerFunction: true}},
		koordinator: "[{0 1} {0 2} {0 3} {1 1} {1 30}]",
	},
}

func TestKoordinatorDevices(t *testing.T) {
	for _, c := range koordinatorDevices {
		config := configOf(deviceMachines[1], topology.CPUSet{})
		node := func(pcie int) int {
			if c.oneNode {
				return 0
			}
			return pcie / 2
		}
		kinds := []DeviceKind{{Name: "gpu"}, {Name: "rdma"}}
		for k, at := range [][]int{c.gpus, c.cards} {
			for i, pcie := range at {
				d := Device{ID: fmt.Sprint(i), Node: node(pcie), Root: 1 + pcie}
				if k == 0 || c.vfs == 0 {
					kinds[k].Devices = append(kinds[k].Devices, d)
					continue
				}
				for v := range c.vfs {
					d.ID, d.Function = fmt.Sprintf("%d.%d", i, v), 1+i
					kinds[k].Devices = append(kinds[k].Devices, d)
				}
			}
		}
		config.Devices = kinds
		m, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		try := m.NewTry()
		for _, d := range c.taken {
			m.TakeDevice(&try.Book, d)
		}
		var g Grant
		outcome := try.Place(&Want{Devices: c.want, Same: SameRoot, SameHow: Required, Width: AnyWidth}, &g)
		slices.SortFunc(g.Devices, func(a, b DeviceRef) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Index, b.Index)) })
		same := outcome == Placed && fmt.Sprint(g.Devices) == c.koordinator
		if same != (c.reason == "") {
			t.Errorf("%s: got %v %v, Koordinator has %s; reason %q", c.name, outcome, g.Devices, c.koordinator, c.reason)
		}
	}
}
