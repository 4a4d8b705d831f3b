package simulate

import (
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// TestRecording: what a Recording says is what the cluster has in the end, asked again pod by pod.
func TestRecording(t *testing.T) {
	rng, seen := rand.New(rand.NewSource(6)), Unused{}
	for round := range 4 {
		for _, overlay := range append(OverlayNames(), "") {
			nodes, pods, ground := someNUMA(t, rng, "sockets/restricted")
			if overlay != "" {
				nodes, pods, ground = someNUMA(t, rng, overlay)
			}
			for i := range pods {
				pods[i].MiB *= int64(1 + 2*round)
			}
			all, of := shapes(pods)
			load := typical(all, slices.Repeat([]int{1}, len(all)))
			for _, s := range Strategies() {
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
				p := newPlayer(c, all, &s, load, trace.NewDraw(nodes, pods, 0, 1))
				p.recorder = newRecorder(c, capacity, true)
				p.arrivals(of, capacity)
				r := p.recorder.end(load)
				checkRecording(t, c, load, capacity, r)
				for lack := range lacks {
					*seen.by(lack) += *r.Unused.by(lack)
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

func checkRecording(t *testing.T, c Cluster, load []Typical, all Capacity, r *Recording) {
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
	u := r.Unused
	if sum := u.CPUs + u.Memory + u.GPUs + u.NUMANodes; math.Abs(u.Usable-usable) > 1e-6 || math.Abs(sum-stranded) > 1e-6 {
		t.Errorf("%+v: want %f usable and %f stranded", u, usable, stranded)
	}
	if sum := usable + stranded; math.Abs(sum-percent(free, all.GPU)) > 1e-6 {
		t.Errorf("%f percent are free, the parts are %f", percent(free, all.GPU), sum)
	}
	for i := 1; i < len(r.InUse); i++ {
		for row := range r.InUse[i] {
			if r.InUse[i][row] < r.InUse[i-1][row] {
				t.Errorf("row %d has %d, then %d: pods do not leave", row, r.InUse[i-1][row], r.InUse[i][row])
			}
		}
	}
}

// takes puts the pod there, and takes it away. The state is kept: memory that a pod had on several
// NUMA nodes need not come back to the ones it was taken from.
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

// TestNoGPUs: pods that ask for GPUs need nodes that have some.
func TestNoGPUs(t *testing.T) {
	pods, err := Synthetic("inference", false)
	if err != nil {
		t.Fatal(err)
	}
	e := Experiment{Nodes: []trace.Node{{Name: "a", MilliCPU: 64000, MiB: 1 << 18}}, Pods: pods, Strategies: published(), Seeds: []int64{1}}
	if _, err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "want nodes with GPUs") {
		t.Errorf("error %v", err)
	}
}
