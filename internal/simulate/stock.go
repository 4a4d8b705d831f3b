package simulate

import "math"

// stock returns strategies of kube-scheduler, which does not know NUMA nodes. Each strategy adds
// the scores of two plugins, NodeResourcesFit and NodeResourcesBalancedAllocation, with equal
// weights.
func stock() []Strategy {
	fixed := func(name, about string, f Scoring) Strategy {
		return Strategy{Name: name, About: about, Blind: true, Ties: ByChance, New: func([]Typical) Scorer { return f }}
	}
	return []Strategy{
		fixed("StockLeast", "kube-scheduler's default: least of CPU and memory allocated, in balance", func(l *Look) int64 {
			return leastAllocated(l) + balance(l)
		}),
		fixed("StockMost", "kube-scheduler with MostAllocated: most of CPU, memory and the GPUs asked for", func(l *Look) int64 {
			sum, n := 200-left(l.FreeCPU-l.Shape.MilliCPU, l.AllCPU)-left(l.FreeMiB-l.Shape.MiB, l.AllMiB), int64(2)
			if l.Shape.GPUs > 0 {
				sum, n = sum+100-left(l.FreeGPUs()-l.Shape.AskedGPU(), 1000*int64(len(l.FreeGPU))), n+1
			}
			return sum/n + balance(l)
		}),
	}
}

// leastAllocated is the score of NodeResourcesFit with LeastAllocated, for CPU and memory.
func leastAllocated(l *Look) int64 {
	return (left(l.FreeCPU-l.Shape.MilliCPU, l.AllCPU) + left(l.FreeMiB-l.Shape.MiB, l.AllMiB)) / 2
}

// left returns the free part as a percentage, rounded down.
func left(free, all int64) int64 { return free * 100 / max(1, all) }

// balance scores how much the pod reduces the difference between the used parts of CPU and memory.
// It is 75 if nothing changes (balancedResourceScorer of kube-scheduler 1.36).
func balance(l *Look) int64 {
	before := apart(l.AllCPU-l.FreeCPU, l.AllCPU, l.AllMiB-l.FreeMiB, l.AllMiB)
	with := apart(l.AllCPU-l.FreeCPU+l.Shape.MilliCPU, l.AllCPU, l.AllMiB-l.FreeMiB+l.Shape.MiB, l.AllMiB)
	return 50 + (50+with-before)/2
}

// apart returns 100 if the used parts of CPU and memory are equal, and 50 if one is full and the
// other empty.
func apart(cpu, allCPU, mib, allMiB int64) int64 {
	a, b := float64(cpu)/float64(allCPU), float64(mib)/float64(allMiB)
	return int64((1 - math.Abs(min(1, a)-min(1, b))/2) * 100)
}
