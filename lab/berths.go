package lab

import (
	"cmp"
	"math/bits"
	"math/rand"
	"slices"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/placement"
)

// berths prefers the node on which the pod takes the least room from expected pods. For each recent
// shape, it compares how many copies fit on the node before and after the pod is placed. It weights
// the difference by the shape's frequency and by the part of a node that a copy takes. It learns
// the load while pods arrive.
type berths struct {
	asked map[*simulate.Shape]int
	total int
	load  []simulate.Typical
	after []simulate.Zone
}

// maxLearnt bounds the shapes that berths uses.
const maxLearnt = 32

// Learn counts an arriving pod. It reports a changed load whenever the number of arrived pods has
// doubled.
func (b *berths) Learn(s *simulate.Shape) bool {
	b.asked[s]++
	if b.total++; bits.OnesCount(uint(b.total)) != 1 {
		return false
	}
	b.load = b.load[:0]
	for shape, n := range b.asked {
		b.load = append(b.load, simulate.Typical{Shape: shape, Part: float64(n) / float64(b.total)})
	}
	slices.SortFunc(b.load, func(x, y simulate.Typical) int {
		return cmp.Or(simulate.TypicalOrder(&x, &y), cmp.Compare(x.Shape.MiB, y.Shape.MiB)) // so that each run is the same
	})
	b.load = b.load[:min(len(b.load), maxLearnt)]
	return true
}

// Score returns the expected loss in millionths of a node. Lower is better.
func (b *berths) Score(l *simulate.Look) int64 {
	b.after = append(b.after[:0], l.Zones...)
	take(b.after, int(l.Shape.MilliCPU/1000), l.Shape.GPUs)
	lost, spread := 0.0, l.Model.Strictness(l.Shape.Request()) != placement.SingleNUMANode
	for i := range b.load {
		t := &b.load[i]
		if t.Shape.GPUs > 0 && !t.Shape.Takes(l.GPUModel) {
			continue
		}
		if before := copies(l.Zones, t.Shape, spread); before > 0 {
			lost += t.Part * float64(before-copies(b.after, t.Shape, spread)) * share(t.Shape, l)
		}
	}
	return -int64(lost * 1e6)
}

// share returns the larger of two fractions of a node that a pod of the shape takes: of its CPUs
// and of its GPUs.
func share(s *simulate.Shape, l *simulate.Look) float64 {
	cpu := float64(s.MilliCPU) / float64(l.AllCPU)
	if len(l.FreeGPU) == 0 {
		return cpu
	}
	return max(cpu, float64(s.GPUs)/float64(len(l.FreeGPU)))
}

// take takes CPUs and GPUs from the pod's NUMA nodes, in their order.
func take(zones []simulate.Zone, cpus, gpus int) {
	for i := range zones {
		if z := &zones[i]; z.Mine {
			cpu, gpu := min(cpus, z.FreeCPU), min(gpus, z.FreeGPU)
			z.FreeCPU, z.FreeGPU, cpus, gpus = z.FreeCPU-cpu, z.FreeGPU-gpu, cpus-cpu, gpus-gpu
		}
	}
}

// copies returns how many pods of the shape fit: each on one NUMA node if an empty NUMA node has
// room for it, otherwise on all NUMA nodes together.
func copies(zones []simulate.Zone, s *simulate.Shape, spread bool) (n int) {
	cpus, gpus := max(1, int(s.MilliCPU/1000)), s.GPUs
	var all simulate.Zone
	narrow := false
	for i := range zones {
		z := &zones[i]
		n += copiesOn(z, cpus, gpus)
		narrow = narrow || cpus <= z.AllCPU && gpus <= z.AllGPU
		all.FreeCPU, all.FreeGPU = all.FreeCPU+z.FreeCPU, all.FreeGPU+z.FreeGPU
	}
	if !narrow && spread {
		return copiesOn(&all, cpus, gpus)
	}
	return n
}

func copiesOn(z *simulate.Zone, cpus, gpus int) int {
	n := z.FreeCPU / cpus
	if gpus > 0 {
		n = min(n, z.FreeGPU/gpus)
	}
	return n
}

// GPU implements simulate.Scorer. No pod asks for a share of a GPU on a node with NUMA nodes.
func (b *berths) GPU(l *simulate.Look, r *rand.Rand) int { return simulate.Scoring(b.Score).GPU(l, r) }
