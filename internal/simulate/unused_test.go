package simulate

import (
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// TestUnused: the reported unused resources are those of the cluster at the end, as found by asking
// pod by pod.
func TestUnused(t *testing.T) {
	rng, seen := rand.New(rand.NewSource(6)), Unused{}
	for round := range 4 {
		for _, overlay := range append(overlayNames(), "") {
			nodes, pods, ground := someNUMA(t, rng, "sockets/restricted")
			if overlay != "" {
				nodes, pods, ground = someNUMA(t, rng, overlay)
			}
			for i := range pods {
				pods[i].MiB *= int64(1 + 2*round)
			}
			all, of := shapes(pods)
			load := typical(all, slices.Repeat([]int{1}, len(all)))
			for _, s := range strategies() {
				var c Cluster = NewAmounts(nodes)
				if overlay != "" {
					c = ground(nodes, s.Blind)
				} else if s.NUMA {
					continue
				}
				capacity := capacityOf(nodes, pods)
				if capacity.GPU == 0 {
					continue
				}
				p := newPlayer(c, all, &s, load, trace.NewDraw(nodes, pods, 1, nil))
				p.arrivals(of, capacity)
				u := unusedOf(c, capacity, load)
				checkUnused(t, c, load, capacity, u)
				for lack := range lacks {
					*seen.by(lack) += *u.by(lack)
				}
			}
		}
	}
	for lack := range lacks {
		if *seen.by(lack) == 0 {
			t.Errorf("%+v: the test has not seen each kind of lack", seen)
		}
	}
}

func checkUnused(t *testing.T, c Cluster, load []Typical, all Capacity, u *Unused) {
	t.Helper()
	usable, stranded, parts, free := 0.0, 0.0, 0.0, int64(0)
	for i := range load {
		if load[i].Shape.GPUs > 0 {
			parts += load[i].Part
		}
	}
	for node := range c.Size() {
		left := c.Free(node, true)
		free += left
		for i := range load {
			s := load[i].Shape
			if s.GPUs == 0 {
				continue
			}
			if part := percent(left, all.GPU) * load[i].Part / parts; takes(c, node, s) {
				usable += part
			} else {
				stranded += part
			}
		}
	}
	if sum := u.CPUs + u.Memory + u.GPUs + u.NUMANodes; math.Abs(u.Usable-usable) > 1e-6 || math.Abs(sum-stranded) > 1e-6 {
		t.Errorf("%+v: want %f usable and %f stranded", u, usable, stranded)
	}
	if sum := usable + stranded; math.Abs(sum-percent(free, all.GPU)) > 1e-6 {
		t.Errorf("%f percent are free, the parts are %f", percent(free, all.GPU), sum)
	}
}

// takes puts the pod on the node and takes it away again. It restores the state, because memory on
// several NUMA nodes may not return to the same ones.
func takes(c Cluster, node int, s *Shape) bool {
	var l Look
	if !c.Look(node, s, &l) {
		return false
	}
	if n, ok := c.(*numa); ok {
		before := n.states[node]
		n.states[node] = before.Clone()
		defer func() { n.states[node] = before }()
	}
	const probe = 1 << 30
	if c.Put(node, probe, s, tightest(&l)).Refused {
		return false
	}
	c.Take(node, probe, s)
	return true
}

// TestNoGPUs: pods that request GPUs need nodes with GPUs.
func TestNoGPUs(t *testing.T) {
	pods := []trace.Pod{{Name: "p", MilliCPU: 1000, MiB: 1024, GPUs: 1, MilliGPU: trace.Thousandths}}
	e := Experiment{Nodes: []trace.Node{{Name: "a", MilliCPU: 64000, MiB: 1 << 18}}, Pods: pods, Strategies: onAmounts(), Seeds: []int64{1}}
	if _, err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "want nodes with GPUs") {
		t.Errorf("error %v", err)
	}
}
