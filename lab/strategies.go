package lab

import (
	"slices"

	"github.com/berth-dev/berth/internal/simulate"
)

// Strategies are all that there are, by name in the order in which they are listed: the paper's,
// kube-scheduler's, the neighbours', and Berth's with what it is measured by.
func Strategies() []simulate.Strategy {
	var stock, own []simulate.Strategy
	for _, s := range simulate.Strategies() {
		if s.Blind {
			stock = append(stock, s)
		} else {
			own = append(own, s)
		}
	}
	return slices.Concat(published(), stock, neighbours(), own, measures())
}

// StrategiesOf finds strategies by their names. The error names an unknown strategy.
func StrategiesOf(names ...string) ([]simulate.Strategy, error) {
	return simulate.StrategiesOf(Strategies(), names...)
}

// measures are what Berth's default is measured by.
func measures() []simulate.Strategy {
	return []simulate.Strategy{
		{Name: "Berths", About: "fewest berths lost that are expected to be wanted, learnt while pods arrive", NUMA: true, Ties: simulate.FirstOfOrder, New: func([]simulate.Typical) simulate.Scorer {
			return &berths{asked: map[*simulate.Shape]int{}}
		}},
		{Name: "FirstFit", About: "the first node that takes the pod", NUMA: true, New: func([]simulate.Typical) simulate.Scorer {
			return simulate.Scoring(func(*simulate.Look) int64 { return 0 })
		}},
		{Name: "FGDNUMA", About: "FGD where a GPU counts as lost for whom its NUMA node has too little", NUMA: true, Knows: true, New: func(load []simulate.Typical) simulate.Scorer {
			f := fgdNUMA{load: load}
			return simulate.Scoring(f.score)
		}},
	}
}

// left is what is left, in percent.
func left(free, all int64) int64 { return free * 100 / max(1, all) }
