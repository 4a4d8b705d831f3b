package simulate

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
)

// tryGang places all members of a gang or none (package gangfit). A strategy with Plans compares
// the nodes once for all members. Other strategies compare the nodes again for each member.
func (c *clock) tryGang(id int32) bool {
	j := &c.jobs[id]
	q := gangfit.Question{Gang: plan.Gang{Minimum: int(j.members), Members: make([]plan.Member, j.members)}}
	for i := range q.Members {
		if !c.strategy.Plans {
			q.Members[i].Kind = i
		}
	}
	if v := q.Ask(&gangNodes{clock: c, job: id}); !v.Whole {
		return false
	}
	for pod := j.first; pod < j.first+j.members; pod++ {
		c.retry(int(c.members[pod].node))
	}
	return true
}

// gangNodes implements plan.Field for the members of a gang. It asks no ledger, because the
// simulation knows the state of each node.
type gangNodes struct {
	plan.Uncoupled
	clock *clock
	job   int32
}

var _ plan.Field = (*gangNodes)(nil)

func (g *gangNodes) score(node int) int32 {
	return g.clock.scores.score(node, g.clock.jobs[g.job].shape)
}

// Nodes implements plan.Field: it returns the nodes that admit a member, best first. For a strategy
// that does not plan, it returns only the node that the strategy chooses, or only -1 if there is
// none.
func (g *gangNodes) Nodes(int) (nodes []int) {
	if !g.clock.strategy.Plans {
		return []int{g.clock.choose(g.clock.draw.Order, g.clock.jobs[g.job].shape)}
	}
	for _, node := range g.clock.draw.Order {
		if g.score(int(node)) > refusing {
			nodes = append(nodes, int(node))
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(g.score(b), g.score(a)) })
	return nodes
}

// Node implements plan.Field.
func (g *gangNodes) Node(int) suppose.Node { return suppose.Node{} }

// Admits implements plan.Field.
func (g *gangNodes) Admits(_, node int) bool { return node >= 0 && g.score(node) > refusing }

// Put implements plan.Field.
func (g *gangNodes) Put(member, node int) {
	g.clock.put(g.job, g.clock.jobs[g.job].first+int32(member), node)
}

// Take implements plan.Field.
func (g *gangNodes) Take(member, _ int) {
	j := &g.clock.jobs[g.job]
	g.clock.take(j, j.first+int32(member))
}
