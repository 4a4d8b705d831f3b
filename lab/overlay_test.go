package lab

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// TestOverlays: machines have the NUMA nodes and GPUs that README.md describes.
func TestOverlays(t *testing.T) {
	for _, c := range []struct {
		overlay    string
		cpus, gpus int
		want       int
	}{
		{"sockets/restricted", 96, 8, 2}, {"sockets/restricted", 16, 2, 1}, {"sockets/restricted", 32, 4, 2},
		{"quarters/restricted", 96, 8, 4}, {"quarters/restricted", 32, 4, 2}, {"quarters/restricted", 6, 1, 1},
	} {
		o, err := ParseOverlay(c.overlay)
		if err != nil {
			t.Fatal(err)
		}
		n := &trace.Node{Name: "n", MilliCPU: int64(c.cpus) * 1000, MiB: 262144, GPUs: c.gpus}
		k, err := o.belowOf(n)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		at, err := o.gpusAt(k.machine, n)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(k.machine.NUMANodes); got != c.want || k.machine.Online.Len() != c.cpus || at[0] != 0 || at[c.gpus-1] != min(c.gpus, c.want)-1 {
			t.Errorf("%+v: %d NUMA nodes, %d CPUs, GPUs on %v", c, got, k.machine.Online.Len(), at)
		}
	}
	for _, text := range []string{"", "sockets", "sockets/none", "halves/restricted"} {
		if _, err := ParseOverlay(text); err == nil || !strings.Contains(err.Error(), "want sockets/restricted") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := NewNUMA([]trace.Node{{Name: "tiny", MilliCPU: 1000, MiB: 10}}, Overlays{Rest: &Overlay{Packages: 2, PerPackage: 1, Policy: "restricted"}}); err == nil || !strings.Contains(err.Error(), "node tiny") {
		t.Errorf("a machine of one CPU: %v", err)
	}
}
