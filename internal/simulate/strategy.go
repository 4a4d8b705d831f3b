package simulate

import (
	"fmt"
	"math/rand"
	"time"

	"github.com/berth-dev/berth/placement"
)

// Strategy chooses one of the nodes that admit a pod.
type Strategy struct {
	Name string
	// About describes its preference in one line.
	About string
	// Blind strategies see only amounts: the kubelet may refuse their choice.
	Blind bool
	// NUMA strategies work only on clusters with NUMA nodes.
	NUMA bool
	// Plans marks Berth's strategies, which plan a gang as a whole. They compare nodes once for all
	// members, and each node gets as many as fit.
	Plans bool
	// Knows means that the strategy knows the distribution of the load in advance.
	Knows bool
	// Defrag is the interval at which pods are moved to make room for waiting pods, if pods arrive
	// and end; 0 means never.
	Defrag time.Duration
	// Keep is the scheduler's rule which CPUs are kept for pods with GPUs; mostly nil. Kubelets do
	// not know it.
	Keep *placement.Keep
	// Ties is which of equal nodes is chosen: by the order of the draw, or by chance.
	Ties Ties
	// New makes the scorer of one run.
	New func(load []Typical) Scorer
}

// Defragmented returns the strategy with moves of pods at this interval.
func (s Strategy) Defragmented(every time.Duration) Strategy {
	s.Defrag = every
	s.Name = fmt.Sprintf("%s, defrag %gh", s.Name, every.Hours())
	return s
}

// Ties is which of equally good nodes is chosen.
type Ties uint8

const (
	// FirstOfOrder chooses the first in the order of the draw.
	FirstOfOrder Ties = iota
	// ByChance chooses any of them with equal probability.
	ByChance
)

// Scorer is a strategy in one run.
type Scorer interface {
	// Score returns the node's score; higher is better.
	Score(l *Look) int64
	// GPU is which GPU a share is of.
	GPU(l *Look, r *rand.Rand) int
}

// Learner is a Scorer that learns from arrivals. Learn reports whether scores may have changed.
type Learner interface{ Learn(s *Shape) bool }

// Scoring is a Scorer that places a share of a GPU on the fullest GPU with room.
type Scoring func(l *Look) int64

// Score calls the function.
func (f Scoring) Score(l *Look) int64 { return f(l) }

// GPU returns the GPU with the smallest rest that is enough.
func (f Scoring) GPU(l *Look, _ *rand.Rand) int { return tightest(l) }

// tightest is the GPU with the least that is enough.
func tightest(l *Look) int {
	best := -1
	for i, free := range l.FreeGPU {
		if free >= l.Shape.MilliGPU && (best < 0 || free < l.FreeGPU[best]) {
			best = i
		}
	}
	return best
}
