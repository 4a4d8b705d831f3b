package simulate

import "math"

// The strategies of kube-scheduler, which knows no NUMA nodes: NodeResourcesFit, and
// NodeResourcesBalancedAllocation as its default profile has it beside. Scores are whole numbers.

func stock() []Strategy {
	fixed := func(name, about string, f scoring) Strategy {
		return Strategy{Name: name, About: about, Blind: true, Ties: ByChance, new: func([]Typical) scorer { return f }}
	}
	return []Strategy{
		fixed("StockLeast", "kube-scheduler's default: least of CPU and memory allocated, in balance", func(l *Look) int64 {
			return (left(l.FreeCPU-l.Shape.MilliCPU, l.AllCPU)+left(l.FreeMiB-l.Shape.MiB, l.AllMiB))/2 + balance(l)
		}),
		fixed("StockMost", "kube-scheduler with MostAllocated: most of CPU, memory and the GPUs asked for", func(l *Look) int64 {
			sum, n := 200-left(l.FreeCPU-l.Shape.MilliCPU, l.AllCPU)-left(l.FreeMiB-l.Shape.MiB, l.AllMiB), int64(2)
			if l.Shape.GPUs > 0 {
				sum, n = sum+100-left(l.freeGPU()-l.Shape.AskedGPU(), 1000*int64(len(l.FreeGPU))), n+1
			}
			return sum/n + balance(l)
		}),
	}
}

// left is what is left, in percent.
func left(free, all int64) int64 { return free * 100 / max(1, all) }

// balance is how near to each other the parts of CPU and memory in use are.
func balance(l *Look) int64 {
	cpu := float64(l.AllCPU-l.FreeCPU+l.Shape.MilliCPU) / float64(l.AllCPU)
	mib := float64(l.AllMiB-l.FreeMiB+l.Shape.MiB) / float64(l.AllMiB)
	return int64((1 - math.Abs(min(1, cpu)-min(1, mib))/2) * 100)
}
