package simulate

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// berths prefers the node where the fewest berths are lost that are expected to be wanted: for each
// shape that was asked for lately, how many copies the node could take before and after the pod,
// weighted by how often the shape is asked for and by how much of a node it is. It learns the load
// while pods arrive.
type berths struct {
	asked map[*Shape]int
	total int
	load  []Typical
	after []Zone
}

// maxLearnt bounds the shapes that berths goes by.
const maxLearnt = 32

// learn counts a pod that arrives. It reports whether the load has become another one: whenever
// twice as many have arrived.
func (b *berths) learn(s *Shape) bool {
	b.asked[s]++
	if b.total++; bits.OnesCount(uint(b.total)) != 1 {
		return false
	}
	b.load = b.load[:0]
	for shape, n := range b.asked {
		b.load = append(b.load, Typical{shape, float64(n) / float64(b.total)})
	}
	slices.SortFunc(b.load, func(x, y Typical) int {
		return cmp.Or(typicalOrder(&x, &y), cmp.Compare(x.Shape.MiB, y.Shape.MiB)) // so that each run is the same
	})
	b.load = b.load[:min(len(b.load), maxLearnt)]
	return true
}

// score is the expected loss in millionths of a node, the less the better.
func (b *berths) score(l *Look) int64 {
	b.after = append(b.after[:0], l.Zones...)
	take(b.after, int(l.Shape.MilliCPU/1000), l.Shape.GPUs)
	lost, spread := 0.0, l.Model.Strictness(l.Shape.ask) != placement.SingleNUMANode
	for i := range b.load {
		t := &b.load[i]
		if t.Shape.GPUs > 0 && !t.Shape.takes(l.GPUModel) {
			continue
		}
		if before := copies(l.Zones, t.Shape, spread); before > 0 {
			lost += t.Part * float64(before-copies(b.after, t.Shape, spread)) * t.Shape.share(l)
		}
	}
	return -int64(lost * 1e6)
}

// share is how much of a node a pod of the shape takes: of CPUs or of GPUs, whatever is more.
func (s *Shape) share(l *Look) float64 {
	cpu := float64(s.MilliCPU) / float64(l.AllCPU)
	if len(l.FreeGPU) == 0 {
		return cpu
	}
	return max(cpu, float64(s.GPUs)/float64(len(l.FreeGPU)))
}

// take takes CPUs and GPUs from the pod's NUMA nodes, from the first ones first.
func take(zones []Zone, cpus, gpus int) {
	for i := range zones {
		if z := &zones[i]; z.Mine {
			cpu, gpu := min(cpus, z.FreeCPU), min(gpus, z.FreeGPU)
			z.FreeCPU, z.FreeGPU, cpus, gpus = z.FreeCPU-cpu, z.FreeGPU-gpu, cpus-cpu, gpus-gpu
		}
	}
}

// copies is how many pods of the shape fit: each on one NUMA node if an empty one has room for it,
// else on all together, where the kubelet spreads a pod.
func copies(zones []Zone, s *Shape, spread bool) (n int) {
	cpus, gpus := max(1, int(s.MilliCPU/1000)), s.GPUs
	var all Zone
	narrow := false
	for i := range zones {
		z := &zones[i]
		n += z.copies(cpus, gpus)
		narrow = narrow || cpus <= z.AllCPU && gpus <= z.AllGPU
		all.FreeCPU, all.FreeGPU = all.FreeCPU+z.FreeCPU, all.FreeGPU+z.FreeGPU
	}
	if !narrow && spread {
		return all.copies(cpus, gpus)
	}
	return n
}

func (z *Zone) copies(cpus, gpus int) int {
	n := z.FreeCPU / cpus
	if gpus > 0 {
		n = min(n, z.FreeGPU/gpus)
	}
	return n
}
