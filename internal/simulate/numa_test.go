package simulate

import (
	"math/rand"
	"testing"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// someNUMA returns nodes of a few kinds, and pods that do not all fit.
func someNUMA(t *testing.T, rng *rand.Rand, overlay string) ([]trace.Node, []trace.Pod, func([]trace.Node, bool) Cluster) {
	t.Helper()
	nodes, pods := randomLists(rng)
	for i := range nodes {
		nodes[i].MilliCPU *= 2 // so that some nodes have several NUMA nodes
	}
	for i := range pods {
		pods[i].MilliCPU = 4*pods[i].MilliCPU + 500
	}
	ground := laid(t, nodes, overlay)
	return nodes, Whole(pods), ground
}

// TestRememberingNUMA: cached answers equal new ones. A strategy that asks the engine is never
// refused by a kubelet.
func TestRememberingNUMA(t *testing.T) {
	rng, several, refused := rand.New(rand.NewSource(4)), int64(0), int64(0)
	for round, overlay := range append(overlayNames(), overlayNames()...) {
		nodes, pods, ground := someNUMA(t, rng, overlay)
		all, of := shapes(pods)
		load := typical(all, make([]int, len(all)))
		for i := range load {
			load[i].Part = 1 / float64(len(load))
		}
		for _, s := range strategies() {
			if comparesAgain(&s) {
				continue
			}
			p := newPlayer(ground(nodes, s.Blind), all, &s, load, trace.NewDraw(nodes, pods, int64(round), nil))
			got, _ := p.arrivals(of, Capacity{GPU: 1})
			several += got.NUMANodes - got.Pinned
			if s.Blind {
				refused += got.Refusals
				continue // its controllers create new pods, which the twin does not do
			}
			if got.Refusals != 0 {
				t.Errorf("%s, %s: %d refusals", overlay, s.Name, got.Refusals)
			}
			want := slowly(ground(nodes, s.Blind), all, of, &s, load, trace.NewDraw(nodes, pods, int64(round), nil))
			if got != want {
				t.Errorf("%s, %s: %+v, asking every node %+v", overlay, s.Name, got, want)
			}
		}
	}
	if several == 0 || refused == 0 {
		t.Errorf("%d pods lie on several NUMA nodes, kubelets refused %d times: the test has seen neither", several, refused)
	}
}

// TestTakeNUMA: after a pod was taken, a node is as before, and its kubelet's state is valid.
func TestTakeNUMA(t *testing.T) {
	rng := rand.New(rand.NewSource(5))
	for _, overlay := range overlayNames() {
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
				t.Fatalf("%s: the kubelet refuses a pod although Look admits it", overlay)
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
