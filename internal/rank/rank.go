package rank

import (
	"slices"

	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Offer has everything on which a node's Rank for a pod depends, except the demand for its devices
// (Setting). The node admits the pod.
type Offer struct {
	ledger.Spare
	// Certain means that the pod's CPUs are known in advance.
	Certain bool
	// Asked is the number of CPUs that the pod asks for.
	Asked int
	// Machine is the node's hardware; nil if it is not known.
	Machine *topology.Machine
}

// OfferOf returns the offer of the node n for a pod with the request r, which n admits with the
// answer a. m is the node's hardware.
func OfferOf(n *ledger.Node, r *placement.Request, a *ledger.Answer, m *topology.Machine) (o Offer) {
	if n.View().Spare(r, &a.Verdict, &o.Spare) {
		o.Machine = m
	}
	o.Certain, o.Asked = a.Certain && !a.Amounts, r.CPUs()
	return o
}

// Tier is the part of a Rank that is compared first. A smaller Tier is better. Each criterion in
// Scoring.First has some of the bits, and the first criterion has the highest ones.
type Tier uint32

// TierBits is the number of bits of a Tier that are used.
const TierBits = 20

// LastTier is the worst tier. Nodes whose state or machine is not known have it.
const LastTier Tier = 1<<TierBits - 1

// MaxScore is the best Score.
const MaxScore = 100

// Rank rates a node for a pod.
type Rank struct {
	Tier Tier
	// Score is between 0 and MaxScore. A higher score is better.
	Score uint8
}

// Before reports whether a node of this rank comes before a node of rank o.
func (r Rank) Before(o Rank) bool {
	if r.Tier != o.Tier {
		return r.Tier < o.Tier
	}
	return r.Score > o.Score
}

// ScoreBits is the number of bits of an Order below its tier.
const ScoreBits = 8

// LastOrder is the smallest Order of a Rank whose Tier is LastTier.
const LastOrder = uint32(LastTier) << ScoreBits

// Order returns a number of 28 bits that is smaller for a better rank. With the formula Volcano, a
// lower score is better, except that the score 0 is the worst.
func (s *Scoring) Order(r Rank) uint32 {
	worse := MaxScore - min(r.Score, MaxScore)
	if s.Formula == Volcano {
		worse = r.Score - 1
	}
	return uint32(r.Tier)<<ScoreBits | uint32(worse)
}

// Rank returns the rank of the offer. s must be complete and validated. With the formula Volcano
// there is one tier, and the score is the number of NUMA nodes. VolcanoScore computes the final
// score from it when all nodes are known.
func (s *Scoring) Rank(o *Offer) Rank {
	if o.Machine == nil {
		return Rank{Tier: LastTier}
	}
	if s.Formula == Volcano {
		return Rank{Score: uint8(o.Reach.Len())}
	}
	return Rank{s.tier(o), s.score(o)}
}

// Setting adds to ranks the criteria that depend on the demand for a node's devices.
type Setting struct {
	// unwanted are the bits of criteria that do not count if there is no demand for the node's
	// devices. `demand` is the lowest bit of the criterion Demand; 0 if it does not count.
	unwanted, demand Tier
}

// Setting returns the Setting for pods that ask for devices, or for pods that do not.
func (s *Scoring) Setting(asksDevices bool) (in Setting) {
	if s.Formula == Volcano {
		return in
	}
	at := 0
	for _, c := range slices.Backward(s.First) {
		bits, _ := c.measure(&Offer{})
		switch {
		case c == Demand && asksDevices:
			in.demand = 1 << at
		case c == StrandedBeside, c == Devices && !asksDevices:
			in.unwanted |= (1<<bits - 1) << at
		}
		at += bits
	}
	return in
}

// Rank returns the node's complete rank: r, with the criteria that depend on the level of demand
// for the node's devices.
func (in Setting) Rank(r Rank, level demand.Level) Rank {
	switch {
	case r.Tier == LastTier:
	case level == 0:
		r.Tier &^= in.unwanted
	default:
		r.Tier += in.demand * Tier(level)
	}
	return r
}

// tier returns the Tier of the offer. All criteria together have at most TierBits bits.
func (s *Scoring) tier(o *Offer) (t Tier) {
	for _, c := range s.First {
		bits, value := c.measure(o)
		t = t<<bits | Tier(min(value, 1<<bits-1))
	}
	return t
}

// measure returns the value of the criterion, and how many bits of a Tier it has. The value 0 is
// the best. The value of Demand comes from Setting.Rank.
func (c Criterion) measure(o *Offer) (bits, value int) {
	switch c {
	case StrandedBeside:
		return 1, o.Beside
	case Stranded:
		return 1, o.Stranded
	case NUMANodes:
		return 4, o.Reach.Len()
	case Groups:
		return 2, o.Groups
	case Demand:
		return demand.Bits, 0
	case Devices:
		return 5, o.Devices
	default:
		return 2, max(0, int(placement.Restricted)-int(o.Strictness))
	}
}

// score returns the weighted mean of certainty, fit and distance, each between 0 and MaxScore.
func (s *Scoring) score(o *Offer) uint8 {
	return s.weigh(o.Certain, s.fit(o), closeness(o.Machine, o.Reach))
}

func (s *Scoring) weigh(certain bool, fit, closeness int64) uint8 {
	sum := s.Fit*fit + s.Distance*closeness
	if certain {
		sum += s.Certainty * MaxScore
	}
	return uint8(sum / (s.Certainty + s.Fit + s.Distance))
}

// For every busyFrom pods in flight, a node's score is reduced by busyLoss percent of the most that
// certainty can add to it. busyFrom is 4 because one report covers about 4 pods. A smaller number
// would spread pods over more nodes, and so cause more reports, which are work for the API server
// and its clients.
const (
	busyLoss = 75
	busyFrom = 4
)

// IsBusy reports whether a node with this number of pods in flight is busy.
func IsBusy(inFlight int) bool { return inFlight >= busyFrom }

// Busy lowers the score of a node that has many pods in flight, because the next pod may have to
// wait for them. As a result, pods that arrive together are spread over equally good nodes, while
// pods that arrive one by one fill one node.
func (s *Scoring) Busy(score uint8, inFlight int) uint8 {
	if s.Formula == Volcano || !IsBusy(inFlight) {
		return score
	}
	loss := busyLoss * s.Certainty / (s.Certainty + s.Fit + s.Distance) * int64(inFlight/busyFrom)
	return score - uint8(min(int64(score), loss))
}

// fit returns the mean of two scores by the strategy: the score of the pod's NUMA nodes, and the
// score of the whole node. Each score depends on how full the NUMA nodes or the node would be with
// the pod. With MostAllocated, whole NUMA nodes stay free for pods that fit on one NUMA node, and
// whole nodes for larger pods. If the node has a strategy of its own (Spare.OwnFit), fit returns
// the score by that strategy.
func (s *Scoring) fit(o *Offer) int64 {
	if o.OwnFit {
		return int64(o.Fit)
	}
	var room, all, nodeRoom, nodeAll int64
	for i := range o.Machine.NUMANodes {
		n := &o.Machine.NUMANodes[i]
		free, cpus := int64(n.CPUs.AndLen(&o.CPUs)), int64(n.CPUs.Len())
		nodeRoom, nodeAll = nodeRoom+free, nodeAll+cpus
		if o.Reach.Has(n.ID) {
			room, all = room+free, all+cpus
		}
	}
	if all == 0 {
		return 0
	}
	return meanFit(s.fill(room, all, int64(o.Asked)), s.fill(nodeRoom, nodeAll, int64(o.Asked)))
}

func meanFit(reach, node int64) int64 { return (reach + node) / 2 }

// fill returns the score by the strategy for a set of CPUs. The argument `all` is the number of its
// CPUs, `room` is how many of them are free, and `asked` is how many of the free CPUs the pod
// takes.
func (s *Scoring) fill(room, all, asked int64) int64 {
	room -= min(room, asked)
	if s.Strategy == LeastAllocated {
		return MaxScore * room / all
	}
	return MaxScore * (all - room) / all
}

// closeness rates how near the NUMA nodes of the set are to each other. The result is MaxScore
// times the distance of a NUMA node to itself, divided by the mean distance within the set. If no
// distances are known, it returns MaxScore.
func closeness(m *topology.Machine, set topology.NUMASet) int64 {
	const local = 10 // the distance of a NUMA node to itself (ACPI SLIT)
	var sum, pairs int64
	for i := range m.NUMANodes {
		if len(m.NUMANodes[i].Distances) != len(m.NUMANodes) || !set.Has(m.NUMANodes[i].ID) {
			continue
		}
		for j, d := range m.NUMANodes[i].Distances {
			if set.Has(m.NUMANodes[j].ID) {
				sum += int64(d)
				pairs++
			}
		}
	}
	if sum == 0 {
		return MaxScore
	}
	return min(MaxScore, MaxScore*local*pairs/sum)
}
