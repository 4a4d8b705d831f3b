package query

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/stranded"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Choice has the values by which the scheduler compares the nodes that admit a pod.
type Choice struct {
	// Devices is the number of devices that would stay free next to the pod
	// (placement.SpareDevices). If the pod requests devices, all free devices of the same resources
	// on the node count. Otherwise all free devices on the pod's NUMA nodes count.
	Devices int `json:"devices"`
	// Stranded is the number of free devices on the pod's NUMA nodes for which the pod would leave
	// too few CPUs.
	Stranded int `json:"stranded"`
	// Of all devices in use in the cluster, Demand is the percentage that belongs to pods that
	// could run on this node if it were empty.
	Demand int `json:"demand"`
	// Policy is the topologyManagerPolicy in the node's report.
	Policy string `json:"policy"`
	// Score is the node's score from the plugin Berth, from 0 to 100. It decides among nodes that
	// are otherwise equal.
	Score int `json:"score"`

	rank rank.Rank
}

// demandOf returns the demand for each node, by name. It returns nil for a pod that no kubelet
// would pin.
func demandOf(s *survey.Survey, r *placement.Request) map[string]demand.Level {
	if !r.Pinnable() {
		return nil
	}
	var learnt nodestate.Demand
	for pod := range s.Bound() {
		if !wire.OfReservation(pod) {
			learnt.Seen(pod)
		}
	}
	levels, out := learnt.Levels(), map[string]demand.Level{}
	for name, n := range s.States {
		if n.Account != nil {
			out[name] = levels.Of(n.Object, n.Account.View())
		}
	}
	return out
}

// choiceOf returns the Choice for a node that admits the candidate with the answer a. It uses the
// default scoring.
func choiceOf(n *survey.NodeState, c *ledger.Candidate, wanted demand.Level, a *ledger.Answer) *Choice {
	var scoring rank.Scoring
	scoring.FillIn()
	offer := rank.OfferOf(n.Account, c.Request, a, n.Machine())
	r := scoring.Setting(c.Request.AsksDevices()).Rank(scoring.Rank(&offer), wanted)
	return &Choice{Devices: offer.Devices, Stranded: offer.Stranded, Demand: int(wanted) * 100 / int(demand.MostDemand), Policy: policyOf(n), Score: int(r.Score), rank: r}
}

// DefaultScoring describes the criteria of the default scoring, the most important first.
func DefaultScoring() string {
	var scoring rank.Scoring
	scoring.FillIn()
	return scoring.String()
}

func policyOf(n *survey.NodeState) string {
	return cmp.Or(n.Reading.Kind.Spec.Config.TopologyManagerPolicy, "none")
}

// better orders answers by outcome, and answers with the same outcome in the scheduler's order.
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

// FewerCPUs is the largest request for CPUs with which the otherwise unchanged pod would fit now.
type FewerCPUs struct {
	// Container is the container whose request for CPUs would change from Asked to CPUs. The other
	// containers keep their requests.
	Container string `json:"container"`
	CPUs      int64  `json:"cpus"`
	Asked     int64  `json:"asked"`
	// Nodes are the nodes that would admit the changed pod on the fewest NUMA nodes. NUMACount is
	// the number of these NUMA nodes.
	Nodes     []string `json:"nodes"`
	NUMACount int      `json:"numaCount"`
}

// Alternative is another amount of one resource with which some nodes would admit the pod now.
type Alternative struct {
	// Container is the container whose request would change from Asked to Instead. Nothing else
	// changes.
	Container string `json:"container"`
	Resource  string `json:"resource"`
	Asked     uint64 `json:"asked"`
	Instead   uint64 `json:"instead"`
	// Nodes are the nodes that would admit the changed pod on the fewest NUMA nodes. NUMACount is
	// the number of these NUMA nodes, or 0 if nothing is pinned.
	Nodes     []string `json:"nodes"`
	NUMACount int      `json:"numaCount,omitempty"`
	// Text describes the alternative without the nodes.
	Text string `json:"text"`
}

// alternatives finds requests that would fit, for a pod that no node admits. Each alternative
// changes the amount of one resource; an alternative for CPU comes first. Each node is assumed to
// be in its most likely state.
func (q *question) alternatives(s *survey.Survey, answers []Answer) (out []Alternative) {
	remedies := make([][]placement.Remedy, len(answers))
	parallel.Do(len(answers), func(i int) {
		a := &answers[i]
		n := s.States[a.Node]
		switch {
		case n.Trouble != nil || a.Answer != Refuses && (a.Answer != Excluded || !a.tooLarge):
		case a.Refusal != nil:
			remedies[i] = a.Refusal.Remedies
		case n.Reading != nil && n.Reading.Kind != nil && n.Reading.Kind.Model != nil:
			snap := n.Snapshot()
			if state, err := n.Reading.Kind.Model.StateOf(&snap); err == nil {
				remedies[i] = placement.Changes(state, q.request, q.roomy(n, nodestate.RoomOf(n.Object, n.Bound, q.classes)))
			}
		}
	})
	best := map[string]*Alternative{}
	for i := range answers {
		for j := range remedies[i] {
			m := &remedies[i][j]
			if m.Do != placement.RemedyAsk || m.Empty {
				continue
			}
			one := &Alternative{Container: m.Container, Resource: m.Resource, Asked: m.Asked, Instead: m.Instead, NUMACount: m.NUMANodes, Nodes: []string{answers[i].Node}}
			switch has := best[m.Resource]; {
			case has == nil || one.closer(has):
				best[m.Resource] = one
			case !has.closer(one):
				has.Nodes = append(has.Nodes, answers[i].Node)
			}
		}
	}
	for _, one := range best {
		slices.Sort(one.Nodes)
		one.Text = one.text()
		out = append(out, *one)
	}
	slices.SortFunc(out, func(a, b Alternative) int {
		switch amounts.CPU { // no two elements have the same resource
		case a.Resource:
			return -1
		case b.Resource:
			return 1
		}
		return cmp.Compare(a.Resource, b.Resource)
	})
	return out
}

// closer reports whether a is a better alternative than b. It prefers, in this order: an amount
// below the request, the container with the larger request, an amount nearer to the request, fewer
// NUMA nodes.
func (a *Alternative) closer(b *Alternative) bool {
	switch less, other := a.Instead < a.Asked, b.Instead < b.Asked; {
	case less != other:
		return less
	case a.Asked != b.Asked: // a and b change different containers
		return a.Asked > b.Asked
	case a.Instead != b.Instead:
		return less == (a.Instead > b.Instead)
	}
	return a.NUMACount < b.NUMACount
}

func (a *Alternative) text() string {
	name, on := a.Resource, ""
	if a.Resource == amounts.CPU {
		name = map[bool]string{true: "CPU", false: "CPUs"}[a.Instead == 1]
	}
	if a.NUMACount > 0 {
		on = ", on " + wire.Counted(a.NUMACount, "NUMA node")
	}
	text := func(n uint64) string {
		if stranded.IsBytes(a.Resource) {
			return topology.FormatBytes(n)
		}
		return strconv.FormatUint(n, 10)
	}
	return "container " + a.Container + " with " + text(a.Instead) + " " + name + " instead of " + text(a.Asked) + on
}

// fitOf returns the alternative with fewer CPUs as FewerCPUs, or nil.
func fitOf(all []Alternative) *FewerCPUs {
	for i := range all {
		if a := &all[i]; a.Resource == amounts.CPU && a.Instead < a.Asked {
			return &FewerCPUs{Container: a.Container, CPUs: int64(a.Instead), Asked: int64(a.Asked), Nodes: a.Nodes, NUMACount: a.NUMACount}
		}
	}
	return nil
}
