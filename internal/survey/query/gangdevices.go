package query

import (
	"cmp"
	"context"
	"maps"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/placement"
)

// gangDevices finds devices for the members of a gang, with the same rules as the scheduler.
type gangDevices struct {
	ctx       context.Context //nolint:containedctx // it lives as long as the call that makes it
	allocator *allocator
	trial     *claims.Trial
	// before is the state of the devices before the plan gives devices to members.
	before structured.AllocatedState
	// members are the members that may have claims, by index in the gang's Members. `places` has an
	// element for each node.
	members map[int]*claimant
	places  []claimPlace
	// had maps each member to the devices that the plan last gave to it. `refused` lists pairs of a
	// member and a node on which the member got no devices.
	had     map[int][]resourcev1.AllocationResult
	refused map[[2]int]bool
}

// findDevices sets t.devices if any member has claims. If the scheduler refuses a member on every
// node because of its claims, wrong explains why.
func (t *trialNodes) findDevices(ctx context.Context, c *survey.Cluster) (wrong string, notes []string, err error) {
	d := &gangDevices{ctx: ctx, members: map[int]*claimant{}, had: map[int][]resourcev1.AllocationResult{}, refused: map[[2]int]bool{}}
	var h *source.HandedOut
	for i := range t.asks.Members {
		q := t.kinds[t.asks.Members[i].Kind].question
		if q.pod = t.pods[i]; !q.mayClaim() {
			continue
		}
		if h == nil {
			if h, err = c.From.HandedOut(ctx, q.pod.Namespace); err != nil {
				return "", nil, err
			}
			if h.Slices == nil || h.Classes == nil || h.Claims == nil {
				return "", h.Notes, nil
			}
			d.allocator, notes = newAllocator(h, &c.Terms), h.Notes
		}
		x := claimantWith(c, t.survey, &q, h, d.allocator)
		if wrong = x.refusal(c); wrong != "" {
			return "pod " + q.pod.Name + ": " + wrong, notes, nil
		}
		d.members[i] = x
	}
	if h == nil {
		return "", nil, nil
	}
	for _, n := range t.nodes {
		d.places = append(d.places, claimPlace{NodeState: n})
	}
	d.before = d.allocator.state
	d.trial, t.devices = claims.NewTrial(&d.before), d
	return "", notes, nil
}

// refusal explains why the scheduler refuses the pod on every node because of its claims, or
// returns "".
func (x *claimant) refusal(c *survey.Cluster) string {
	if _, err := c.Terms.ReadClaims(x.question.pod); err != nil {
		return err.Error()
	}
	all := x.findAll()
	for i, found := range x.found {
		switch {
		case found == nil && all[i].Message != needsNone && all[i].Message != "":
			return "claim " + all[i].Name + ": " + all[i].Message
		case found != nil && x.mode != claims.Free:
			if why := claims.Unserved(x.question.pod.UID, found); why != "" {
				return `"berth.dev/claims: ` + x.mode.String() + `": ` + why
			}
		}
	}
	return ""
}

// give allocates devices to a member on a node. It returns false if the node lacks devices for the
// member, or if the CPUs of a member that requires near devices would be uncertain.
func (d *gangDevices) give(t *trialNodes, member, node int, would plan.Lies, again plan.Again) bool {
	n, x, at := t.nodes[node], d.members[member], &d.places[node]
	m := knownMachine(n)
	w := claims.Would{Lying: claims.NUMAOf(would.Decision, m), Sure: would.Sure || n.Decides(), Loose: would.Loose && !n.Decides()}
	if n.Decides() && m != nil {
		w.Again = func(near *placement.Claimed) (claims.Lying, bool) {
			lies, ok := again(near)
			if !ok {
				return nil, false
			}
			return claims.NUMAOf(lies.Decision, m), true
		}
	}
	var on *claims.OnNode
	fits := true
	if x != nil {
		d.allocator.state = *d.trial.State()
		on = x.on(at)
		for i := range on.Claims {
			fits = fits && !awayFrom(n, on.Claims[i].ResourceClaim)
		}
	}
	if !fits || !d.trial.Give(d.ctx, n.Name, on, &w) {
		d.refused[[2]int{member, node}] = true
		return false
	}
	if x != nil {
		d.had[member] = d.trial.Given(x.question.pod.UID)
	}
	return true
}

// explain changes the answers about the member that got no node: if a node would admit it but lacks
// devices for it, the answer becomes a refusal. It is assumed that the other members have their
// planned places and devices.
func (d *gangDevices) explain(t *trialNodes, p *plan.Plan, answers []Answer) {
	x := d.members[p.Lacking]
	var all []Claimed
	if x != nil {
		x.allocator = d.with(t, p)
		x.nodes = nil
		for i := range t.nodes {
			if d.refused[[2]int{p.Lacking, i}] && answers[i].Answer == Admits {
				x.nodes = append(x.nodes, d.place(t, p, x, i))
			}
		}
		all, _ = x.explainAll(d.ctx)
	}
	for i := range answers {
		if a := &answers[i]; d.refused[[2]int{p.Lacking, i}] && a.Answer == Admits {
			a.Answer, a.Message, a.Choice = Refuses, cmp.Or(lacksDevices(all, a.Node), "the CPUs of members whose claims require near devices would not be certain"), nil
		}
	}
}

// place returns the claimPlace for a node with the other members at their places.
func (d *gangDevices) place(t *trialNodes, p *plan.Plan, x *claimant, node int) claimPlace {
	with, member := *t.nodes[node], &t.asks.Members[p.Lacking]
	if on := p.Node(node); on != nil {
		if with.Account = on.Account(); on.Pins(&member.Pod) {
			x.question.request = member.Candidate.Request
		}
	}
	at := claimPlace{NodeState: &with}
	if at.first, at.known = wouldLie(&with, x.question, x.mode); !at.known {
		at.why = notCertain
	}
	return at
}

// with returns an allocator in which the planned members have their devices.
func (d *gangDevices) with(t *trialNodes, p *plan.Plan) *allocator {
	a := *d.allocator
	a.state = structured.AllocatedState{
		AllocatedDevices: d.before.AllocatedDevices.Clone(), AllocatedSharedDeviceIDs: d.before.AllocatedSharedDeviceIDs.Clone(), AggregatedCapacity: d.before.AggregatedCapacity.Clone(),
	}
	a.taken = maps.Clone(a.taken)
	for _, at := range p.Places {
		for i := range d.had[at.Member] {
			results := d.had[at.Member][i].Devices.Results
			for k := range results {
				a.take("pod "+t.pods[at.Member].Name, &results[k])
			}
		}
	}
	return &a
}
