package simulate

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// someNUMA has nodes of a few kinds, and pods that do not all fit.
func someNUMA(t *testing.T, rng *rand.Rand, overlay string) ([]trace.Node, []trace.Pod, func([]trace.Node, bool) Cluster) {
	t.Helper()
	nodes, pods := randomLists(rng)
	for i := range nodes {
		nodes[i].MilliCPU *= 2 // so that some have several NUMA nodes
	}
	for i := range pods {
		pods[i].MilliCPU = 4*pods[i].MilliCPU + 500
	}
	o, err := ParseOverlay(overlay)
	if err != nil {
		t.Fatal(err)
	}
	ground, err := NewNUMA(nodes, Overlays{Rest: &o})
	if err != nil {
		t.Fatal(err)
	}
	return nodes, Whole(pods), ground
}

// TestRememberingNUMA: what is remembered is what would be asked, and who asks the engine is never
// refused by a kubelet.
func TestRememberingNUMA(t *testing.T) {
	rng, several, refused := rand.New(rand.NewSource(4)), int64(0), int64(0)
	for round, overlay := range append(OverlayNames(), OverlayNames()...) {
		nodes, pods, ground := someNUMA(t, rng, overlay)
		all, of := shapes(pods)
		load := typical(all, make([]int, len(all)))
		for i := range load {
			load[i].Part = 1 / float64(len(load))
		}
		for _, s := range Strategies() {
			if comparesAgain(&s) {
				continue
			}
			p := newPlayer(ground(nodes, s.Blind), all, &s, load, trace.NewDraw(nodes, pods, 0, int64(round)))
			got, _ := p.arrivals(of, Capacity{GPU: 1})
			several += got.NUMANodes - got.Pinned
			if s.Blind {
				refused += got.Refusals
				continue // its controllers create pods again, which the twin does not
			}
			if got.Refusals != 0 {
				t.Errorf("%s, %s: %d refusals", overlay, s.Name, got.Refusals)
			}
			want := slowly(ground(nodes, s.Blind), all, of, &s, load, trace.NewDraw(nodes, pods, 0, int64(round)))
			if got != want {
				t.Errorf("%s, %s: %+v, asking every node %+v", overlay, s.Name, got, want)
			}
		}
	}
	if several == 0 || refused == 0 {
		t.Errorf("%d pods lie on several NUMA nodes, kubelets refused %d times: the test has seen neither", several, refused)
	}
}

// TestTakeNUMA: a node from which a pod was taken is as it was, and its kubelet's books are right.
func TestTakeNUMA(t *testing.T) {
	rng := rand.New(rand.NewSource(5))
	for _, overlay := range OverlayNames() {
		nodes, pods, ground := someNUMA(t, rng, overlay)
		all, of := shapes(pods)
		c := ground(nodes, false).(*numa)
		for i := range pods {
			var l Look
			node, s := rng.Intn(len(nodes)), &all[of[i]]
			if !c.Look(node, s, &l) {
				continue
			}
			before := string(c.AppendKey(nil, node))
			if o := c.Put(node, int32(i), s, -1); o.Refused {
				t.Fatalf("%s: refused after a yes", overlay)
			}
			if err := c.states[node].Check(); err != nil {
				t.Fatal(err)
			}
			if rng.Intn(2) == 0 {
				continue
			}
			c.Take(node, int32(i), s)
			if after := string(c.AppendKey(nil, node)); after != before {
				t.Fatalf("%s: %q, before %q", overlay, after, before)
			}
		}
	}
}

// TestOverlays: machines have the NUMA nodes that docs/quality.md says, and their GPUs lie on them.
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
		k, err := o.kindOf(&trace.Node{Name: "n", MilliCPU: int64(c.cpus) * 1000, MiB: 262144, GPUs: c.gpus})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if got := len(k.machine.NUMANodes); got != c.want || k.machine.Online.Len() != c.cpus || k.gpuAt[0] != 0 || k.gpuAt[c.gpus-1] != min(c.gpus, c.want)-1 {
			t.Errorf("%+v: %d NUMA nodes, %d CPUs, GPUs on %v", c, got, k.machine.Online.Len(), k.gpuAt)
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

func TestSynthetic(t *testing.T) {
	for _, name := range SyntheticNames() {
		if pods, err := Synthetic(name, false); err != nil || len(pods) != 100 {
			t.Errorf("%s: %d pods, %v", name, len(pods), err)
		}
	}
	if _, err := Synthetic("telko", false); err == nil || !strings.Contains(err.Error(), "telco") {
		t.Error(err)
	}
}
