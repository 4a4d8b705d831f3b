package lab

import (
	"math"
	"math/rand"
	"slices"

	"github.com/berth-dev/berth/internal/simulate"
)

// The strategies of the FGD paper (USENIX ATC'23), as its simulator computes them: scores are whole
// numbers from 0 to 100, and fractions are cut off.

// The largest node that the paper's formulas know, in thousandths.
const (
	mostCPU = 128_000
	mostGPU = 8_000
)

func published() []simulate.Strategy {
	return []simulate.Strategy{
		{Name: "Random", About: "any node", Blind: true, Ties: simulate.ByChance, New: func([]simulate.Typical) simulate.Scorer { return random{} }},
		blind("DotProd", "what is asked points away from what is free", dotProduct),
		blind("GpuClustering", "nodes with pods of the same kind", gpuClustering),
		blind("GpuPacking", "GPUs in use, then free ones of nodes in use, then free nodes", gpuPacking),
		blind("BestFit", "least CPU and GPU left", bestFit),
		{Name: "FGD", About: "least more fragmentation for the load that is known", Blind: true, Knows: true, New: func(load []simulate.Typical) simulate.Scorer { return &fgd{load: load, known: map[string]float64{}} }},
	}
}

// blind is a strategy of the paper that scores only by amounts.
func blind(name, about string, f simulate.Scoring) simulate.Strategy {
	return simulate.Strategy{Name: name, About: about, Blind: true, Ties: simulate.FirstOfOrder, New: func([]simulate.Typical) simulate.Scorer { return f }}
}

type random struct{}

func (random) Score(*simulate.Look) int64 { return 0 }

// GPU returns a random GPU that has room.
func (random) GPU(l *simulate.Look, r *rand.Rand) int {
	best, seen := -1, 0
	for i, free := range l.FreeGPU {
		if free >= l.Shape.MilliGPU {
			if seen++; r.Intn(seen) == 0 {
				best = i
			}
		}
	}
	return best
}

func bestFit(l *simulate.Look) int64 {
	cpu := float64(l.FreeCPU-l.Shape.MilliCPU) / mostCPU * 0.5
	gpu := float64(l.FreeGPUs()-l.Shape.AskedGPU()) / mostGPU * 0.5
	return int64((1 - (cpu + gpu)) * 100)
}

func dotProduct(l *simulate.Look) int64 {
	product := float64(l.FreeCPU)/mostCPU*(float64(l.Shape.MilliCPU)/mostCPU) + float64(l.FreeGPUs())/mostGPU*(float64(l.Shape.AskedGPU())/mostGPU)
	return int64(100 * (1 - product/2))
}

func gpuClustering(l *simulate.Look) int64 {
	if l.Shape.GPUs == 0 {
		return 0
	}
	kinds := 0
	for _, count := range l.Kinds {
		if count > 0 {
			kinds++
		}
	}
	used := 25 * (mostGPU - l.FreeGPUs()) / mostGPU
	switch same := l.Kinds[l.Shape.Kind()] > 0; {
	case same && kinds == 1:
		return used + 75
	case same:
		return used + 50
	case kinds == 0:
		return used + 25
	}
	return used
}

func gpuPacking(l *simulate.Look) int64 {
	if l.Shape.GPUs == 0 {
		return 0
	}
	untouched := int64(room(l.FreeGPU, 1000))
	if untouched == int64(len(l.FreeGPU)) {
		return max(100/3-untouched, untouched)
	}
	free := slices.Clone(l.FreeGPU)
	slices.Sort(free)
	opened, share, left := int64(0), int64(0), l.Shape.GPUs
	for _, f := range free {
		if left > 0 && f >= l.Shape.MilliGPU {
			left--
			share += f * 100 / 1000
			if f == 1000 {
				opened++
			}
		}
	}
	if opened > 0 {
		return max(100/2-opened, 100/3)
	}
	return max(100-share/10, 100/2)
}

// fgd prefers the smallest growth of the expected fragmentation. It knows the load.
type fgd struct {
	load []simulate.Typical
	// known caches the fragmentation of nodes' free resources. A large cache is emptied.
	known map[string]float64
	key   []byte
}

// maxFragmentations bounds fgd.known.
const maxFragmentations = 1 << 16

func (f *fgd) Score(l *simulate.Look) int64 {
	score, _ := f.best(l)
	return score
}

func (f *fgd) GPU(l *simulate.Look, _ *rand.Rand) int {
	_, gpu := f.best(l)
	return gpu
}

// best returns the score of the node, and the GPU for a pod that shares a GPU.
func (f *fgd) best(l *simulate.Look) (best int64, gpu int) {
	s, before, gpu := l.Shape, f.fragmentation(l.FreeCPU, l.FreeGPU, l.GPUModel), -1
	after := func(gpus []int64) int64 {
		return int64(sigmoid((before-f.fragmentation(l.FreeCPU-s.MilliCPU, gpus, l.GPUModel))/1000) * 100)
	}
	free := slices.Clone(l.FreeGPU)
	if s.GPUs != 1 || s.MilliGPU == 1000 {
		takeWhole(free, s.GPUs)
		return after(free), gpu
	}
	for i := range free {
		if free[i] < s.MilliGPU {
			continue
		}
		free[i] -= s.MilliGPU
		if score := after(free); gpu < 0 || score > best {
			best, gpu = score, i
		}
		free[i] += s.MilliGPU
	}
	return best, gpu
}

// takeWhole takes the first n whole GPUs.
func takeWhole(free []int64, n int) {
	for i := 0; i < len(free) && n > 0; i++ {
		if free[i] == 1000 {
			free[i], n = 0, n-1
		}
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// fragmentation returns the expected thousandths of the node's free GPUs that a pod of the load
// cannot use.
func (f *fgd) fragmentation(cpu int64, gpus []int64, model string) float64 {
	f.key = f.key[:0]
	for _, free := range gpus {
		f.key = append(f.key, byte(free), byte(free>>8))
	}
	f.key = append(f.key, byte(cpu), byte(cpu>>8), byte(cpu>>16), byte(cpu>>24))
	f.key = append(f.key, model...)
	if known, ok := f.known[string(f.key)]; ok {
		return known
	}
	if len(f.known) >= maxFragmentations {
		clear(f.known)
	}
	sum := fragmentation(f.load, cpu, gpus, model)
	f.known[string(f.key)] = sum
	return sum
}

func fragmentation(load []simulate.Typical, cpu int64, gpus []int64, model string) (sum float64) {
	all := int64(0)
	for _, free := range gpus {
		all += free
	}
	for i := range load {
		s, lost := load[i].Shape, all
		if s.GPUs > 0 && s.MilliCPU <= cpu && s.Takes(model) && room(gpus, s.MilliGPU) >= s.GPUs {
			lost = 0
			for _, free := range gpus {
				if free < s.MilliGPU {
					lost += free
				}
			}
		}
		sum += load[i].Part * float64(lost)
	}
	return sum
}

// IsWithin reports whether a mean over that many seeds agrees with the published value: within half
// a percent, or within two standard errors if that is more.
func IsWithin(got, published, deviation float64, seeds int) bool {
	return math.Abs(got-published) <= max(0.5, 2*deviation/math.Sqrt(float64(seeds)))
}

// FarOff is the largest difference of a mean from the published value, in percent.
const FarOff = 1.2

// room counts the GPUs with enough thousandths free.
func room(gpus []int64, asked int64) (n int) {
	for _, free := range gpus {
		if free >= asked {
			n++
		}
	}
	return n
}
