package simulate

import (
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
)

// own returns the strategy of berth-scheduler with default arguments, and strategies with other
// settings.
func own() []Strategy {
	return []Strategy{
		{Name: "Berth", About: "the scheduler's default: the order of its candidates", NUMA: true, Plans: true, Ties: ByChance, New: byDefault},
		{Name: "BerthKeep", About: "the default with keep: cpusNearDevices, 8 CPUs for each GPU", NUMA: true, Plans: true, Ties: ByChance, Keep: keepEight(), New: byDefault},
		{Name: "BerthProfile", About: "the scheduler with the chart's profile, which also ranks its candidates by kube-scheduler's scores", NUMA: true, Plans: true, Ties: ByChance, New: func([]Typical) Scorer { return newProfile() }},
	}
}

func keepEight() *placement.Keep {
	k, err := placement.NewKeep(map[string]int{gpuResource: 8})
	if err != nil {
		panic("simulate: " + err.Error()) // cannot happen, because 8 is a valid number of CPUs
	}
	return k
}

func byDefault([]Typical) Scorer {
	return Scoring(newBerth().score)
}

// berth scores nodes by the order in which the scheduler ranks its candidates (internal/rank).
type berth struct {
	scoring rank.Scoring
	// settings has the Setting for pods without GPUs, and the Setting for pods with GPUs.
	settings [2]rank.Setting
	offer    rank.Offer
}

func newBerth() *berth {
	b := &berth{}
	b.scoring.FillIn()
	b.settings = [2]rank.Setting{b.scoring.Setting(false), b.scoring.Setting(true)}
	return b
}

func (b *berth) score(l *Look) int64 {
	b.offer = rank.Offer{Certain: true, Asked: l.Shape.ask.CPUs(), Machine: l.Machine}
	b.offer.Fill(l.Model, l.State, l.Shape.ask, &l.Verdict)
	in := &b.settings[min(l.Shape.GPUs, 1)]
	return int64(rank.LastOrder) - int64(b.scoring.Order(in.Rank(b.scoring.Rank(&b.offer), l.Demand)))
}
