package joint

import (
	"testing"

	"github.com/berth-dev/berth/topology"
)

// TestBreaks: a switch, root complex or set of linked devices that is completely free counts as
// broken if some of its devices are taken, and not all.
func TestBreaks(t *testing.T) {
	gpu := DeviceKind{Name: "gpu", Links: []DeviceLink{{0, 1, 1}, {1, 2, 1}, {2, 3, 2}, {5, 6, 2}}}
	for i, at := range [][2]int{{1, 1}, {1, 1}, {1, 2}, {2, 0}, {2, 0}, {0, 0}, {0, 0}} { // root complex, switch
		gpu.Devices = append(gpu.Devices, Device{ID: string(rune('a' + i)), Root: at[0], Switch: at[1]})
	}
	gpu.Devices = append(gpu.Devices, Device{ID: "h", Root: 3, Switch: 3})
	nic := DeviceKind{Name: "nic", Devices: []Device{{ID: "n", Root: 1, Switch: 2}}}
	// The groups are a b, c n and d e, and by links a b c d, c d and f g.
	m, err := New(Config{Nodes: []Node{{Cores: []Core{{CPUs: []topology.CPUID{0}}}}}, Devices: []DeviceKind{gpu, nic}})
	if err != nil {
		t.Fatal(err)
	}
	refs := func(ids string) (out []DeviceRef) {
		for _, id := range ids {
			for kind := range uint8(2) {
				if d, ok := m.Devices.Find(kind, string(id)); ok {
					out = append(out, d)
				}
			}
		}
		return out
	}
	for _, c := range []struct {
		taken, ids string
		want       int
	}{
		{"", "", 0}, {"", "a", 2}, {"", "ab", 1}, {"", "abcd", 2}, {"", "abcden", 0}, {"", "h", 0}, {"", "f", 1}, {"", "fg", 0},
		{"", "c", 3}, {"", "cn", 2}, {"n", "c", 2}, {"d", "c", 1}, {"b", "a", 0}, {"g", "f", 0}, {"e", "d", 2},
	} {
		b := m.NewBook()
		m.Take(b, &Held{Devices: refs(c.taken)})
		if got := m.Devices.Breaks(b, refs(c.ids)); got != c.want {
			t.Errorf("%q beside %q: %d, want %d", c.ids, c.taken, got, c.want)
		}
		if n := testing.AllocsPerRun(10, func() { m.Devices.Breaks(b, refs("")) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	b := m.NewBook()
	m.Devices.MarkSick(b, refs("b")[0])
	if got := m.Devices.Breaks(b, refs("a")); got != 0 || !m.Devices.HasGroups() {
		t.Errorf("%d beside a sick one, want 0", got)
	}
}
