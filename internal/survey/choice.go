package survey

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Choice is what the scheduler goes by among nodes that take a pod.
type Choice struct {
	// Devices is how many free devices that the pod does not ask for its NUMA nodes would have.
	Devices int `json:"devices"`
	// Stranded is how many of them the pod would leave with too few CPUs.
	Stranded int `json:"stranded"`
	// Demand is how many percent of the devices that pods have they could also have on such a node.
	Demand int `json:"demand"`
	// Policy is the node's (topologyManagerPolicy).
	Policy string `json:"policy"`
	// Score is what the plugin Berth gives the node among equals, from 0 to 100.
	Score int `json:"score"`

	rank rank.Rank
}

// demand is how much demand there is for nodes, by name, where a pod could be pinned.
func (s *Survey) demand(r *placement.Request) map[string]demand.Level {
	if !r.Pinnable() {
		return nil
	}
	var learnt nodestate.Demand
	for _, pods := range s.bound {
		for _, pod := range pods {
			if !wire.OfReservation(pod) {
				learnt.Seen(pod)
			}
		}
	}
	levels, out := learnt.Levels(), map[string]demand.Level{}
	for name, n := range s.nodes {
		if n.account != nil {
			out[name] = levels.Of(n.object, n.account.View())
		}
	}
	return out
}

// choice is how good a node that admits would be, by the scheduler's default scoring.
func (n *node) choice(c *ledger.Candidate, wanted demand.Level, a *ledger.Answer) *Choice {
	var scoring rank.Scoring
	scoring.FillIn()
	offer := rank.OfferOf(n.account, c.Request, a, n.machine())
	r := scoring.Setting(c.Request.AsksDevices()).Rank(scoring.Rank(&offer), wanted)
	return &Choice{Devices: offer.Devices, Stranded: offer.Stranded, Demand: int(wanted) * 100 / int(demand.MostDemand), Policy: n.policy(), Score: int(r.Score), rank: r}
}

// DefaultScoring says what counts by default, the most important first.
func DefaultScoring() string {
	var scoring rank.Scoring
	scoring.FillIn()
	return scoring.String()
}

// policy is the node's topologyManagerPolicy.
func (n *node) policy() string {
	return cmp.Or(n.reading.Kind.Spec.Config.TopologyManagerPolicy, "none")
}

// better orders answers: what they say, then as the scheduler would choose.
func better(a, b Answer) int {
	if by := cmp.Compare(slices.Index(answerOrder, a.Answer), slices.Index(answerOrder, b.Answer)); by != 0 {
		return by
	}
	switch {
	case a.Choice == nil || b.Choice == nil:
		return 0
	case a.Choice.rank.Before(b.Choice.rank):
		return -1
	case b.Choice.rank.Before(a.Choice.rank):
		return 1
	}
	return 0
}

// Fit is the most CPUs that a pod like the one that is refused could have now.
type Fit struct {
	// Container is the one that would ask for CPUs instead of Asked; the others ask for the same.
	Container string `json:"container"`
	CPUs      int64  `json:"cpus"`
	Asked     int64  `json:"asked"`
	// Nodes would take the pod then, on as few NUMA nodes as any: NUMACount.
	Nodes     []string `json:"nodes"`
	NUMACount int      `json:"numaCount"`
}

// fitOf finds what would fit in place of what is refused everywhere: the same pod with fewer CPUs
// in its largest container. It goes by each node's likeliest state. It returns nil where nothing
// smaller fits either, or where the container asks for no whole CPUs.
func (q *question) fitOf(s *Survey, answers []Answer) *Fit {
	at, all := largest(q.request)
	if at < 0 || all < 2 {
		return nil
	}
	type room struct {
		cpus int64
		numa int
	}
	rooms := make([]room, len(answers))
	inParallel(len(answers), func(i int) {
		if a := &answers[i]; s.nodes[a.Node].trouble == nil && (a.Answer == Refuses || a.Answer == Excluded && a.tooLarge) {
			rooms[i].cpus, rooms[i].numa = q.most(s, s.nodes[a.Node], at, all)
		}
	})
	best := &Fit{Container: q.request.Containers[at].Name, Asked: all}
	for i, r := range rooms {
		if r.cpus == 0 || r.cpus < best.CPUs || r.cpus == best.CPUs && r.numa > best.NUMACount {
			continue
		}
		if r.cpus > best.CPUs || r.numa < best.NUMACount {
			best.CPUs, best.NUMACount, best.Nodes = r.cpus, r.numa, nil
		}
		best.Nodes = append(best.Nodes, answers[i].Node)
	}
	if best.CPUs == 0 {
		return nil
	}
	slices.Sort(best.Nodes)
	return best
}

// largest is the app container with most CPUs, and how many; -1 where none asks for whole CPUs.
func largest(r *placement.Request) (at int, cpus int64) {
	at = -1
	for i := range r.Containers {
		c := &r.Containers[i]
		if n := c.MilliCPU / 1000; c.Kind == placement.App && c.MilliCPU%1000 == 0 && n > cpus {
			at, cpus = i, n
		}
	}
	return at, cpus
}

// most is the most CPUs below all that the container could ask for on the node, and on how many
// NUMA nodes the pod would be; 0 for none. More CPUs never fit better, except for rare requests
// (placement.Model.Monotone): what is found there is a number that fits.
func (q *question) most(s *Survey, n *node, at int, all int64) (cpus int64, numa int) {
	snap := n.snapshot()
	state, err := n.reading.Kind.Model.StateOf(&snap)
	if err != nil {
		return 0, 0
	}
	room := nodestate.RoomOf(n.object, s.bound[n.name], q.classes)
	try := func(cpus int64) (placement.Verdict, bool) {
		r := *q.request
		r.Containers = slices.Clone(r.Containers)
		r.Containers[at].MilliCPU = 1000 * cpus
		less := maps.Clone(q.amounts)
		less[amounts.CPU] -= 1000 * (all - cpus)
		if lacking(less, q.classes, n.object) != "" || room.Short(less) != nil {
			return placement.Verdict{}, false
		}
		v := placement.Admit(state, &r)
		return v, v.OK()
	}
	first := sort.Search(int(all-1), func(i int) bool { // fits all-1-i
		_, ok := try(all - 1 - int64(i))
		return ok
	})
	cpus = all - 1 - int64(first)
	if cpus < 1 {
		return 0, 0
	}
	v, ok := try(cpus)
	if !ok {
		return 0, 0
	}
	return cpus, v.NUMA.Len()
}
