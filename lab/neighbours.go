package lab

import "github.com/berth-dev/berth/internal/simulate"

// The strategies of other schedulers that know NUMA nodes, after their documentation or code. All
// of them ask the engine which nodes admit the pod, which the real schedulers cannot do. So only
// their choice among nodes is compared. Among equal nodes they choose at random.

func neighbours() []simulate.Strategy {
	fixed := func(name, about string, f simulate.Scoring) simulate.Strategy {
		return simulate.Strategy{Name: name, About: about, NUMA: true, Ties: simulate.ByChance, New: func([]simulate.Typical) simulate.Scorer { return f }}
	}
	return []simulate.Strategy{
		fixed("Volcano", "Volcano's numa-aware plugin: fewest NUMA nodes for the pod", func(l *simulate.Look) int64 {
			return 100 - int64(mine(l))
		}),
		fixed("KoordinatorMost", "Koordinator's MostAllocated: most of the node's NUMA nodes in use", func(l *simulate.Look) int64 {
			return 100 * int64(inUse(l)) / int64(len(l.Zones))
		}),
		fixed("KoordinatorLeast", "Koordinator's LeastAllocated: fewest of the node's NUMA nodes in use", func(l *simulate.Look) int64 {
			return 100 - 100*int64(inUse(l))/int64(len(l.Zones))
		}),
		fixed("KAI", "KAI's fewest zones, then the node with most GPUs in use, or CPUs", func(l *simulate.Look) int64 {
			fill := 100 - left(l.FreeCPU, l.AllCPU)
			if l.Shape.GPUs > 0 {
				fill = 100 - left(l.FreeGPUs(), 1000*int64(len(l.FreeGPU)))
			}
			return 1000*(100-int64(mine(l))) + fill
		}),
		fixed("LeastNUMANodes", "scheduler-plugins' LeastNUMANodes: fewest NUMA nodes, half a step for near ones", func(l *simulate.Look) int64 {
			step := int64(100 / 8)
			score := 100 - step*int64(mine(l))
			if near(l) {
				score += step / 2
			}
			return score
		}),
		fixed("KatalystPack", "Katalyst's packing: most of the pod's NUMA nodes in use", func(l *simulate.Look) int64 { return filled(l) }),
		fixed("KatalystSpread", "Katalyst's spreading: least of the pod's NUMA nodes in use", func(l *simulate.Look) int64 { return 100 - filled(l) }),
		fixed("KeepCPUs", "CPUs beside free GPUs are kept for pods with GPUs, as Slurm can; then best fit", func(l *simulate.Look) int64 {
			score := bestFit(l)
			if l.Shape.GPUs == 0 && robs(l) {
				score -= 1000
			}
			return score
		}),
	}
}

// mine returns how many NUMA nodes the pod would use.
func mine(l *simulate.Look) (n int) {
	for i := range l.Zones {
		if l.Zones[i].Mine {
			n++
		}
	}
	return n
}

// inUse returns how many NUMA nodes would be in use with the pod. CPUs that are reserved for the
// system do not count.
func inUse(l *simulate.Look) (n int) {
	for i := range l.Zones {
		z := &l.Zones[i]
		if z.Mine || z.FreeGPU < z.AllGPU || z.FreeCPU < z.AllCPU-threads {
			n++
		}
	}
	return n
}

// near reports whether the pod's NUMA nodes are as close to each other as possible: in one package,
// if one has enough.
func near(l *simulate.Look) bool {
	first, last := -1, 0
	for i := range l.Zones {
		if l.Zones[i].Mine {
			if last = i; first < 0 {
				first = i
			}
		}
	}
	return first < 0 || last-first+1 == mine(l)
}

// filled returns the used part of the pod's NUMA nodes in percent: the mean of CPUs and, if the pod
// asks for some, GPUs.
func filled(l *simulate.Look) int64 {
	var cpu, allCPU, gpu, allGPU int
	for i := range l.Zones {
		if z := &l.Zones[i]; z.Mine {
			cpu, allCPU, gpu, allGPU = cpu+z.FreeCPU, allCPU+z.AllCPU, gpu+z.FreeGPU, allGPU+z.AllGPU
		}
	}
	sum, n := 100-left(int64(cpu)-l.Shape.MilliCPU/1000, int64(allCPU)), int64(1)
	if l.Shape.GPUs > 0 {
		sum, n = sum+100-left(int64(gpu-l.Shape.GPUs), int64(allGPU)), 2
	}
	return sum / n
}

// robs reports whether the pod would leave free GPUs of its NUMA nodes with too few CPUs.
func robs(l *simulate.Look) bool {
	asked := int(l.Shape.MilliCPU / 1000)
	for i := range l.Zones {
		z := &l.Zones[i]
		if !z.Mine || z.FreeGPU == 0 {
			continue
		}
		if take := min(asked, z.FreeCPU); z.FreeCPU-take < z.FreeGPU*(z.AllCPU/z.AllGPU) {
			return true
		}
	}
	return false
}
