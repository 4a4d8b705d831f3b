package simulate

import (
	"math/rand"

	"github.com/berth-dev/berth/internal/rank"
)

// Defaults of the scheduler (fewNodes, Args.Candidates and Weight of internal/scheduler): the
// number of nodes up to which the scheduler compares all nodes, the number of candidates in larger
// clusters, and the weight of Berth's score relative to kube-scheduler's scores.
const (
	fewNodes      = 100
	candidates    = 32
	weightOfBerth = 2
)

// profile chooses as the scheduler does with the chart's profile. The candidates are the best nodes
// in the order of the scorer berth. If not all equally good nodes can be candidates, profile takes
// the first ones after a random position. Among the candidates of the best tier, profile chooses
// the node with the highest sum of Berth's score, NodeResourcesFit and
// NodeResourcesBalancedAllocation.
type profile struct {
	Scoring
	named []int32
}

// comparer is a scorer that compares the best nodes a second time. equals returns the equally good
// nodes, from which the caller chooses one at random. The result is valid until the next call.
type comparer interface {
	equals(p *player, nodes []int32, shape int32) []int32
}

func newProfile() *profile {
	return &profile{Scoring: newBerth().score}
}

func (f *profile) equals(p *player, nodes []int32, shape int32) []int32 {
	f.name(p.scores, nodes, shape, p.draw.Rand)
	best, equal := int64(-1), f.named[:0]
	for _, node := range f.named {
		total := weightOfBerth*int64(rank.MaxScore-worse(p.scores.score(int(node), shape))) + p.beside(node, shape)
		if total > best {
			best, equal = total, equal[:0]
		}
		if total == best {
			equal = append(equal, node)
		}
	}
	return equal
}

// beside returns the sum of the scores of NodeResourcesFit and NodeResourcesBalancedAllocation for
// a node that admits the pod.
func (p *player) beside(node, shape int32) int64 {
	s := p.scores
	s.cluster.Look(int(node), &s.shapes[shape], &s.look)
	return leastAllocated(&s.look) + balance(&s.look)
}

// orderOf returns the rank.Scoring.Order from which the type berth computed the score.
func orderOf(score int32) uint32 { return rank.LastOrder - uint32(score) }

// worse returns how much the score is below the best possible score of its tier.
func worse(score int32) uint32 { return orderOf(score) & (1<<rank.ScoreBits - 1) }

// name stores the candidates of the best tier in f.named.
func (f *profile) name(s *scores, nodes []int32, shape int32, r *rand.Rand) {
	tier, counts := ^uint32(0), [1 << rank.ScoreBits]int{}
	for _, node := range nodes {
		score := s.score(int(node), shape)
		if score == refusing {
			continue
		}
		if of := orderOf(score) >> rank.ScoreBits; of != tier {
			if of > tier {
				continue
			}
			tier, counts = of, [1 << rank.ScoreBits]int{}
		}
		counts[worse(score)]++
	}
	last, left := lastNamed(&counts, len(nodes))
	f.named = f.named[:0]
	from := 0
	if len(nodes) > fewNodes {
		from = r.Intn(len(nodes))
	}
	for i := range nodes {
		node := nodes[(from+i)%len(nodes)]
		score := s.score(int(node), shape)
		if score == refusing || orderOf(score)>>rank.ScoreBits != tier || worse(score) > last {
			continue
		}
		if worse(score) == last {
			if left == 0 {
				continue
			}
			left--
		}
		f.named = append(f.named, node)
	}
}

// lastNamed returns the largest result of the function worse among the candidates, and the number
// of candidates with this result. `counts` has the number of nodes for each result.
func lastNamed(counts *[1 << rank.ScoreBits]int, nodes int) (last uint32, left int) {
	few := candidates
	if nodes <= fewNodes {
		few = nodes
	}
	for score, count := range counts {
		if last, left = uint32(score), min(few, count); few <= count {
			break
		}
		few -= count
	}
	return last, left
}
