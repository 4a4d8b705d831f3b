package lab

import (
	"slices"

	"github.com/berth-dev/berth/internal/simulate"
)

// Strategies are all strategies in their printed order: strategies of the paper, of kube-scheduler,
// of other schedulers and of Berth, and the strategies with which Berth's default is compared.
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

// measures are the strategies with which Berth's default is compared.
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

// left returns the free part in percent.
func left(free, all int64) int64 { return free * 100 / max(1, all) }
