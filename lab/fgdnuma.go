package lab

import (
	"math"

	"github.com/berth-dev/berth/internal/simulate"
)

// fgdNUMA is fgd with NUMA nodes in the place of nodes.
type fgdNUMA struct {
	load  []simulate.Typical
	after []simulate.Zone
}

func (f *fgdNUMA) score(l *simulate.Look) int64 {
	f.after = append(f.after[:0], l.Zones...)
	take(f.after, int(l.Shape.MilliCPU/1000), l.Shape.GPUs)
	lost := f.lost(l.Zones, l.GPUModel) - f.lost(f.after, l.GPUModel)
	// A sigmoid, as in FGD, but with finer steps. With 100 steps, pods without GPUs would get equal
	// scores everywhere.
	return int64(1e6 / (1 + math.Exp(-lost)))
}

// lost returns the expected number of free GPUs that a pod of the load cannot use.
func (f *fgdNUMA) lost(zones []simulate.Zone, model string) (sum float64) {
	var node simulate.Zone // the amounts of all zones
	for i := range zones {
		node.FreeGPU, node.FreeCPU, node.AllGPU = node.FreeGPU+zones[i].FreeGPU, node.FreeCPU+zones[i].FreeCPU, max(node.AllGPU, zones[i].AllGPU)
	}
	if node.FreeGPU == 0 {
		return 0
	}
	for i := range f.load {
		s := f.load[i].Shape
		asked := int(s.MilliCPU / 1000)
		lost := 0
		switch {
		case s.GPUs == 0 || !s.Takes(model) || s.GPUs > node.FreeGPU || asked > node.FreeCPU:
			lost = node.FreeGPU
		case s.GPUs <= node.AllGPU:
			lost = lostFor(zones, s.GPUs, asked)
		}
		sum += f.load[i].Part * float64(lost)
	}
	return sum
}

// lostFor counts the free GPUs of zones that have too few GPUs or too few CPUs for the pod.
func lostFor(zones []simulate.Zone, gpus, cpus int) (lost int) {
	for i := range zones {
		if z := &zones[i]; z.FreeGPU < gpus || z.FreeCPU < cpus {
			lost += z.FreeGPU
		}
	}
	return lost
}
