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
	// About describes in one line which nodes the strategy prefers.
	About string
	// Blind means that the strategy sees only amounts, so the kubelet may refuse its choice.
	Blind bool
	// NUMA means that the strategy works only on clusters with NUMA nodes.
	NUMA bool
	// Plans means that the strategy plans a gang as a whole, as berth-scheduler does: it compares
	// nodes once for all members, and puts as many members as fit on each node.
	Plans bool
	// Knows means that the strategy knows the distribution of the load in advance.
	Knows bool
	// Defrag is the interval at which the strategy moves pods to make room for waiting pods. 0
	// means never. It has no effect if no pod ends.
	Defrag time.Duration
	// Keep is the scheduler's rule that keeps CPUs free for pods with GPUs, or nil. Kubelets do not
	// know the rule.
	Keep *placement.Keep
	// Ties is the rule for the choice among nodes with equal scores.
	Ties Ties
	// New returns the scorer for one run.
	New func(load []Typical) Scorer
}

// Defragmented returns the strategy with the given interval as its Defrag.
func (s Strategy) Defragmented(every time.Duration) Strategy {
	s.Defrag = every
	s.Name = fmt.Sprintf("%s, defrag %gh", s.Name, every.Hours())
	return s
}

// Ties is the rule for the choice among equally good nodes.
type Ties uint8

const (
	// FirstOfOrder chooses the first of these nodes in the order of the draw.
	FirstOfOrder Ties = iota
	// ByChance chooses each of these nodes with equal probability.
	ByChance
)

// Scorer computes the scores of a strategy in one run.
type Scorer interface {
	// Score returns the node's score; higher is better.
	Score(l *Look) int64
	// GPU returns the index of the GPU on which the pod gets its share. It is called only for pods
	// that ask for a share of a GPU.
	GPU(l *Look, r *rand.Rand) int
}

// Learner is a Scorer that learns from arrivals. Learn is called for each pod that arrives. Learn
// reports whether scores may have changed.
type Learner interface{ Learn(s *Shape) bool }

// Scoring is a Scorer. If a pod asks for a share of a GPU, it gets the share on the GPU with the
// smallest free part that is large enough.
type Scoring func(l *Look) int64

// Score calls the function.
func (f Scoring) Score(l *Look) int64 { return f(l) }

// GPU implements Scorer.
func (f Scoring) GPU(l *Look, _ *rand.Rand) int { return tightest(l) }

// tightest returns the index of the GPU with the smallest free part that is large enough, or -1.
func tightest(l *Look) int {
	best := -1
	for i, free := range l.FreeGPU {
		if free >= l.Shape.MilliGPU && (best < 0 || free < l.FreeGPU[best]) {
			best = i
		}
	}
	return best
}
