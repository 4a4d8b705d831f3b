package simulate

import (
	"math"

	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
)

// own are Berth's default, and what it is measured by.
func own() []Strategy {
	return []Strategy{
		{Name: "Berth", About: "the scheduler's default: the order of its candidates", NUMA: true, Ties: ByChance, new: byDefault},
		{Name: "BerthKeep", About: "the default with keep: cpusNearDevices, 8 CPUs for each GPU", NUMA: true, Ties: ByChance, Keep: keepEight(), new: byDefault},
		{Name: "BerthProfile", About: "the scheduler with the chart's profile: of its candidates the best by kube-scheduler's scores, too", NUMA: true, Ties: ByChance, new: func([]Typical) scorer { return newProfile() }},
		{Name: "Berths", About: "fewest berths lost that are expected to be wanted, learnt while pods arrive", NUMA: true, Ties: FirstOfOrder, new: func([]Typical) scorer {
			b := &berths{asked: map[*Shape]int{}}
			return learning{scoring(b.score), b}
		}},
		{Name: "FirstFit", About: "the first node that takes the pod", NUMA: true, new: func([]Typical) scorer {
			return scoring(func(*Look) int64 { return 0 })
		}},
		{Name: "FGDNUMA", About: "FGD where a GPU counts as lost for whom its NUMA node has too little", NUMA: true, Knows: true, new: func(load []Typical) scorer {
			f := fgdNUMA{load: load}
			return scoring(f.score)
		}},
	}
}

func keepEight() *placement.Keep {
	k, err := placement.NewKeep(map[string]int{gpuResource: 8})
	if err != nil {
		panic("simulate: " + err.Error()) // 8 is a number of CPUs
	}
	return k
}

func byDefault([]Typical) scorer {
	return scoring(newBerth().score)
}

// berth is the order in which the scheduler names its candidates (internal/rank).
type berth struct {
	scoring rank.Scoring
	// settings are for pods without GPUs, and for those with some.
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

// fgdNUMA is fgd with NUMA nodes in the place of nodes.
type fgdNUMA struct {
	load  []Typical
	after []Zone
}

func (f *fgdNUMA) score(l *Look) int64 {
	f.after = append(f.after[:0], l.Zones...)
	take(f.after, int(l.Shape.MilliCPU/1000), l.Shape.GPUs)
	lost := f.lost(l.Zones, l.GPUModel) - f.lost(f.after, l.GPUModel)
	// A sigmoid, as in FGD, but finer: hundredths hide what a pod without GPUs does.
	return int64(1e6 / (1 + math.Exp(-lost)))
}

// lost is how many free GPUs a pod of the load is expected not to be able to use.
func (f *fgdNUMA) lost(zones []Zone, model string) (sum float64) {
	var node Zone // the amounts of all zones
	for i := range zones {
		node.FreeGPU, node.FreeCPU, node.AllGPU = node.FreeGPU+zones[i].FreeGPU, node.FreeCPU+zones[i].FreeCPU, max(node.AllGPU, zones[i].AllGPU)
	}
	if node.FreeGPU == 0 {
		return 0
	}
	for i := range f.load {
		s := f.load[i].Shape
		asked := int(s.MilliCPU / 1000)
		lost := 0
		switch {
		case s.GPUs == 0 || !s.takes(model) || s.GPUs > node.FreeGPU || asked > node.FreeCPU:
			lost = node.FreeGPU
		case s.GPUs <= node.AllGPU:
			lost = lostFor(zones, s.GPUs, asked)
		}
		sum += f.load[i].Part * float64(lost)
	}
	return sum
}

// lostFor counts the free GPUs of zones that have too few GPUs, or CPUs beside them.
func lostFor(zones []Zone, gpus, cpus int) (lost int) {
	for i := range zones {
		if z := &zones[i]; z.FreeGPU < gpus || z.FreeCPU < cpus {
			lost += z.FreeGPU
		}
	}
	return lost
}
