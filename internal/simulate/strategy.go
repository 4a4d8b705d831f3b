package simulate

import (
	"fmt"
	"math/rand"
	"time"

	"github.com/berth-dev/berth/placement"
)

// Strategy says which of the nodes that take a pod it goes to.
type Strategy struct {
	Name string
	// About says in one line what it prefers.
	About string
	// Blind strategies see amounts alone: the kubelet may refuse what they choose.
	Blind bool
	// NUMA strategies are for clusters with NUMA nodes alone.
	NUMA bool
	// Knows says that it knows the distribution of the load beforehand.
	Knows bool
	// Defrag is how often pods are moved to make room for waiting pods, where pods come and go;
	// 0: never.
	Defrag time.Duration
	// Keep is the scheduler's rule which CPUs are kept for pods with GPUs; mostly nil. No kubelet
	// knows of it.
	Keep *placement.Keep
	// Ties says which of equal nodes is chosen: by the order of the draw, or by chance.
	Ties Ties
	// new makes the scorer of one run.
	new func(load []Typical) scorer
}

// Defragmented is the strategy that also moves pods, so often.
func (s Strategy) Defragmented(every time.Duration) Strategy {
	s.Defrag = every
	s.Name = fmt.Sprintf("%s, defrag %gh", s.Name, every.Hours())
	return s
}

// Ties says which of equally good nodes is chosen.
type Ties uint8

const (
	// FirstOfOrder chooses the first in the order of the draw.
	FirstOfOrder Ties = iota
	// ByChance chooses any, each as likely.
	ByChance
)

// scorer is a strategy in one run.
type scorer interface {
	// score is how good the node is, more is better.
	score(l *Look) int64
	// gpu is which GPU a share is of.
	gpu(l *Look, r *rand.Rand) int
}

// learner is a scorer that learns from who arrives. learn reports whether scores may be others now.
type learner interface{ learn(s *Shape) bool }

// learning is a scoring with what it learns by.
type learning struct {
	scoring
	learner
}

// Typical is a shape with its part of the load to come.
type Typical struct {
	Shape *Shape
	Part  float64
}

// scoring is a scorer whose share of a GPU is of the fullest that has room.
type scoring func(l *Look) int64

func (f scoring) score(l *Look) int64 { return f(l) }

func (f scoring) gpu(l *Look, _ *rand.Rand) int { return tightest(l) }

// fixed is a strategy that sees amounts alone, and scores by them.
func fixed(name, about string, t Ties, f scoring) Strategy {
	return Strategy{Name: name, About: about, Blind: true, Ties: t, new: func([]Typical) scorer { return f }}
}

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
