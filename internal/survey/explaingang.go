package survey

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// ExplainedGang is why a gang is where it is, or nowhere.
type ExplainedGang struct {
	Gang
	Scheduler string `json:"scheduler,omitempty"`
	// Pods are its members by name: the ones that have a node have what they hold, the others what
	// they would get now.
	Pods []GangPod `json:"pods"`
	// Verdict is what would become of the members that waitif they were planned now; "" where none
	// waits, or nobody can tell. Whole says that as many would have nodes as start together.
	Verdict string `json:"verdict,omitempty"`
	Whole   bool   `json:"whole"`
	// Fit is how many would have nodes, with the ones that have one.
	Fit int `json:"fit"`
	// Lacking is the first member that would get none.
	Lacking *Lacking `json:"lacking,omitempty"`

	Notes []string `json:"notes,omitempty"`
}

// GangPod is a member, and what it has or would get.
type GangPod struct {
	Name string `json:"name"`
	Task string `json:"task,omitempty"`
	// State is that of a Pod, or would fit, of a member that waits and would get a node now.
	State string `json:"state"`
	Node  string `json:"node,omitempty"`
	// NUMANodes are the ones that it holds, or would get.
	NUMANodes string `json:"numaNodes,omitempty"`
	// Certainty is that of the promise it has or would get.
	Certainty string `json:"certainty,omitempty"`
}

// StateWouldFit is of a member that waits and would get a node now.
const StateWouldFit = "would fit"

// Lacking is a member that gets no node, and what nodes say to it, with its mates where they would
// be.
type Lacking struct {
	Pod    string   `json:"pod"`
	Groups []Group  `json:"groups"`
	Nodes  []Answer `json:"nodes"`
}

// ExplainGang says why the named gang of the namespace is where it is, or nowhere. source is a part
// of what declares it, as wire.GangSource names it; "" for any.
func (c *Cluster) ExplainGang(ctx context.Context, source, name string) (*ExplainedGang, error) {
	s, err := c.Survey(ctx, "")
	if err != nil {
		return nil, err
	}
	g, notes, err := c.gangNamed(ctx, source, name)
	if err != nil {
		return nil, err
	}
	return c.explainGang(ctx, s, g, notes)
}

// gangNamed finds a gang of the namespace.
func (c *Cluster) gangNamed(ctx context.Context, source, name string) (_ *Gang, notes []string, err error) {
	all, err := c.Gangs(ctx)
	if err != nil {
		return nil, nil, err
	}
	var found []*Gang
	var sources []string
	for i := range all.Gangs {
		if g := &all.Gangs[i]; g.Name == name && g.Namespace == c.Namespace && strings.Contains(strings.ToLower(g.Source), source) {
			found, sources = append(found, g), append(sources, strings.ToLower(g.Source))
		}
	}
	switch len(found) {
	case 0:
		return nil, nil, fmt.Errorf("no %s %s in namespace %s at %s", cmp.Or(source, "gang"), name, c.Namespace, c.Where)
	case 1:
		return found[0], all.Notes, nil
	}
	return nil, nil, fmt.Errorf("gang %s/%s: %d have that name: want %s before it", c.Namespace, name, len(found), strings.Join(sources, " or "))
}

// GangNames returns the names of the gangs of the namespace; source is as in ExplainGang.
func (c *Cluster) GangNames(ctx context.Context, source string) ([]string, error) {
	all, err := c.Gangs(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range all.Gangs {
		if g := &all.Gangs[i]; strings.Contains(strings.ToLower(g.Source), source) {
			names = append(names, g.Name)
		}
	}
	return names, nil
}

// explainGang explains a gang by a survey of all nodes.
func (c *Cluster) explainGang(ctx context.Context, s *Survey, g *Gang, notes []string) (*ExplainedGang, error) {
	e := &ExplainedGang{Gang: *g, Fit: g.Bound + g.Succeeded, Whole: g.State == gangs.Whole}
	left := gangs.Needed(&g.spec, &g.done)
	waits := newGangTrial(s, g.spec, gangs.Together(g.waiting, taskOf, wire.MaxGang, left.Tasks))
	waits.gang.Minimum, waits.gang.Tasks = left.All, left.Tasks
	e.listPods(s)
	placed := slices.DeleteFunc(slices.Clone(g.pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" || !gangs.Active(pod) })
	if slices.ContainsFunc(waits.pods, wire.AsksMates) || slices.ContainsFunc(placed, wire.AsksMates) {
		waits.seated = placed
	}
	if len(waits.pods) > 0 && g.State != gangs.Wrong && g.State != gangs.Forming {
		if err := waits.prepare(ctx, c); err != nil {
			return nil, err
		}
		waits.run(e)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	e.Notes = append(slices.Clone(s.Notes), notes...)
	return e, nil
}

// listPods says of each pod how far it is.
func (e *ExplainedGang) listPods(s *Survey) {
	for _, pod := range e.Gang.pods {
		sum, _ := s.pod(pod)
		e.Scheduler = nameOfScheduler(pod)
		e.Pods = append(e.Pods, GangPod{Name: pod.Name, Task: taskOf(pod), State: sum.State, Node: sum.Node, NUMANodes: sum.NUMANodes, Certainty: sum.Certainty})
	}
	slices.SortFunc(e.Pods, func(a, b GangPod) int { return cmp.Compare(a.Name, b.Name) })
}

// gangTrial is a survey's nodes with members on them that are not there. It implements plan.Field.
type gangTrial struct {
	survey *Survey
	spec   wire.Gang
	// pods are planned together, the oldest first.
	pods []*corev1.Pod
	// seated are members that have nodes, where anybody asks about another's place.
	seated []*corev1.Pod
	gang   plan.Gang
	kinds  []*gangKind
	nodes  []*node
	budget *plan.Budget
	// dear is what the gang asks for, as far as that makes it dear.
	dear plan.Dear
	// rooms are what the nodes have beside the pods that are bound to them.
	rooms []func() *amounts.Node
	// classes are the resources that device classes stand for, once a member asks for such.
	classes map[corev1.ResourceName]bool
}

// gangKind is members that every node answers alike.
type gangKind struct {
	question
	// said is what nodes said when they were first asked, by number.
	said []Answer
}

var _ plan.Field = (*gangTrial)(nil)

func newGangTrial(s *Survey, spec wire.Gang, pods []*corev1.Pod) *gangTrial {
	t := &gangTrial{survey: s, spec: spec, pods: pods}
	for _, name := range s.Names() {
		n := s.nodes[name]
		t.nodes = append(t.nodes, n)
		t.rooms = append(t.rooms, sync.OnceValue(func() *amounts.Node { return nodestate.RoomOf(n.object, s.bound[name], t.classes) }))
	}
	return t
}

// prepare makes members of the pods.
func (t *gangTrial) prepare(ctx context.Context, c *Cluster) error {
	t.budget = plan.NewBudget(ctx)
	known := map[[sha256.Size]byte]int{}
	for _, pod := range t.pods {
		if err := t.add(ctx, c, pod, known); err != nil || t.budget.Over() {
			return err
		}
	}
	for _, pod := range slices.Concat(t.pods, t.seated) {
		t.dear.Names += wire.CountMates(pod)
	}
	if !t.budget.Spend(t.dear.Names) {
		return nil
	}
	wishes, err := wire.MatesOf(t.pods, t.seated)
	for _, pod := range t.seated {
		seat := plan.Seat{Node: slices.IndexFunc(t.nodes, func(n *node) bool { return n.name == pod.Spec.NodeName })}
		if seat.Node < 0 {
			seat.Node = plan.Elsewhere
		} else if account := t.nodes[seat.Node].account; account != nil {
			seat.Got.NUMA, seat.Got.Exact = account.View().Holding(string(pod.UID))
		}
		t.gang.Seated = append(t.gang.Seated, seat)
	}
	for i := range wishes {
		for _, w := range wishes[i] {
			t.gang.Wish(i, plan.Wish(w))
		}
	}
	return err
}

// add makes a member of a pod.
func (t *gangTrial) add(ctx context.Context, c *Cluster, pod *corev1.Pod, known map[[sha256.Size]byte]int) error {
	ask, err := c.Terms.ReadPod(pod)
	if err != nil {
		return err
	}
	says, err := wire.ReadMembership(pod)
	if err != nil {
		return err
	}
	m := plan.Member{Task: says.Task, Pod: suppose.Pod{Asks: wire.ReadAmounts(pod), Ports: wire.PortsOf(pod)}}
	m.Size = m.Asks.Size()
	if ask.Request.Pinnable() {
		m.Candidate = &ledger.Candidate{Request: &ask.Request, Created: pod.CreationTimestamp.Unix()}
	}
	like, err := json.Marshal(slimPod(pod).Spec)
	if err != nil {
		return err
	}
	rules, err := json.Marshal(berthAnnotations(pod.Annotations))
	if err != nil {
		return err
	}
	t.budget.Spend(len(like) / 128)
	key := sha256.Sum256(append(like, rules...))
	k, ok := known[key]
	if !ok && len(t.kinds) == plan.MaxKinds {
		t.dear.Kinds = plan.MaxKinds + 1
		t.budget.Spend(plan.Looks)
		return nil
	}
	if !ok {
		q := question{pod: pod, request: &ask.Request, said: ask.Said, rulesErr: ask.RulesErr, created: pod.CreationTimestamp.Unix(), amounts: m.Asks}
		if t.classes == nil {
			if t.classes, err = t.survey.classes(ctx, c, q.amounts); err != nil {
				return err
			}
		}
		q.classes = t.classes
		k, known[key] = len(t.kinds), len(t.kinds)
		t.kinds = append(t.kinds, &gangKind{question: q})
	}
	m.Kind = k
	t.gang.Members = append(t.gang.Members, m)
	return nil
}

// run plans, and says what came of it.
func (t *gangTrial) run(e *ExplainedGang) {
	if short := t.short(&e.Gang); short != "" {
		e.Verdict = short
		return
	}
	p := plan.Plan{Lacking: -1, Cut: true}
	if !t.budget.Over() {
		p = plan.Make(&t.gang, t, t.budget)
	}
	if p.Cut {
		t.dear.Members, t.dear.Kinds, t.dear.Late = len(t.pods), max(t.dear.Kinds, len(t.kinds)), t.budget.Late()
		e.Verdict = t.dear.String()
		return
	}
	e.Whole = p.Whole
	e.Fit += len(p.Places)
	by := map[string]*GangPod{}
	for i := range e.Pods {
		by[e.Pods[i].Name] = &e.Pods[i]
	}
	for _, at := range p.Places {
		one := by[t.pods[at.Member].Name]
		one.State, one.Node, one.NUMANodes = StateWouldFit, t.nodes[at.Node].name, at.Got.NUMA.String()
		if c := wire.VerdictOnly; at.Got.NUMA != 0 {
			if at.Got.Exact {
				c = wire.Exact
			}
			one.Certainty = c.String()
		}
	}
	minimum := cmp.Or(e.Minimum, 1)
	switch {
	case p.Whole && p.Lacking < 0:
		e.Verdict = "all fit now"
	case p.Whole:
		e.Verdict = fmt.Sprintf("the minimum fits now: %d, of %d", e.Fit, minimum)
	case len(p.Waits) > 0:
		e.Verdict = fmt.Sprintf("%d of %d pods fit now; nodes' next reports will decide on the others", e.Fit, minimum)
	case len(p.Tangled) > 0:
		e.Verdict = fmt.Sprintf("%d of %d pods fit now; others would in some of the orders in which kubelets may admit those of one second", e.Fit, minimum)
	case p.Lacking < 0:
		e.Verdict = fmt.Sprintf("%d of %d pods fit now, and of some task too few", e.Fit, minimum)
	default:
		e.Verdict = fmt.Sprintf("%d of %d pods fit now", e.Fit, minimum) + t.never()
	}
	if p.Lacking >= 0 {
		e.Lacking = t.lacking(&p)
	}
}

// never names the resource that even empty nodes have too little of for the members that have to
// start together; "" for none. Of each resource the members that ask for least count.
func (t *gangTrial) never() string {
	asked := map[string][]int64{}
	for _, pod := range t.pods {
		for name, amount := range wire.ReadAmounts(pod) {
			asked[name] = append(asked[name], amount)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		least := slices.Sorted(slices.Values(append(asked[name], make([]int64, len(t.pods)-len(asked[name]))...)))
		want := int64(0)
		for _, amount := range least[:min(t.gang.Minimum, len(least))] {
			want += amount
		}
		all, told := t.survey.inAll(name)
		if !told {
			return ""
		}
		if all > 0 && want > all {
			has, wants := amounts.Texts(name, all, want)
			return fmt.Sprintf("; not even empty nodes would do: they have %s %s in all, and these pods ask for %s", has, amounts.Name(name, all), wants)
		}
	}
	return ""
}

// inAll is how much of a resource all nodes have together, unless some node does not tell.
func (s *Survey) inAll(resource string) (all int64, told bool) {
	for _, n := range s.nodes {
		has, told := nodestate.Allocatable(n.object)
		if n.object != nil && !told {
			return 0, false
		}
		all += has[resource]
	}
	return all, true
}

// short says which of the resources that the group names can neither be had nor be freed, as the
// scheduler does by its default arguments. What is kept for other groups only the scheduler knows:
// it writes that into the group's status. A group that it has let in is not asked again.
func (t *gangTrial) short(g *Gang) string {
	if len(t.spec.Resources) == 0 || !gangs.NotLetIn(t.spec.Phase) {
		return ""
	}
	var room gangs.Room
	for _, n := range t.nodes {
		has, told := nodestate.Allocatable(n.object)
		if !told || n.object.Spec.Unschedulable {
			continue
		}
		room.Offer(has)
		for _, pod := range t.survey.bound[n.name] {
			if wire.Ended(pod) {
				continue
			}
			part, _ := gangs.PartOf(pod, true)
			room.Take(&gangs.Occupant{
				Asks: wire.ReadAmounts(pod), Priority: corev1helpers.PodPriority(pod), Gang: part.Says.Gang, Leaving: pod.DeletionTimestamp != nil,
				Stays: wire.KeptFromEviction(pod),
			})
		}
	}
	c := gangs.Claim{Asked: wire.ReadResources(t.spec.Resources)}
	maps.DeleteFunc(c.Asked, func(name string, _ int64) bool { return t.classes[corev1.ResourceName(name)] }) // a driver knows
	for i, pod := range t.pods {
		if priority := corev1helpers.PodPriority(pod); i == 0 || priority < c.Priority {
			c.Priority = priority
		}
		c.EvictsNobody = c.EvictsNobody || pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	}
	for _, pod := range g.pods {
		if gangs.Done(pod, pod.Spec.NodeName != "") {
			c.Asked.Take(wire.ReadAmounts(pod))
			c.Asked.Take(amounts.List{amounts.Pods: 1})
		}
	}
	if s := room.Short(&c); s != nil {
		return s.String()
	}
	return ""
}

// nodeLooks is what it costs to have a node explain what it says to a kind, in looks.
const nodeLooks = 4

// Nodes implements plan.Field: the nodes that do not refuse members of the kind, as the scheduler's
// default scoring has them.
func (t *gangTrial) Nodes(kind int) []int {
	k := t.kinds[kind]
	if k.said = make([]Answer, len(t.nodes)); !t.budget.Spend(nodeLooks * len(t.nodes)) {
		return nil
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(k.pod)
	inParallel(len(t.nodes), func(i int) {
		n := t.nodes[i]
		k.said[i] = k.askNode(t.survey, n, affinity, t.rooms[i])
	})
	var out []int
	for i := range k.said {
		if k.said[i].Answer == Admits || k.said[i].Answer == Waits {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return better(k.said[a], k.said[b]) })
	return out
}

// Widen implements plan.Field. Nodes leaves out none.
func (t *gangTrial) Widen() bool { return false }

// Coupled implements plan.Field. Affinity between pods is not looked at.
func (t *gangTrial) Coupled(int) bool { return false }

// Closed implements plan.Field.
func (t *gangTrial) Closed(int, int) bool { return false }

// Reopen implements plan.Field.
func (t *gangTrial) Reopen(int) bool { return false }

// Node implements plan.Field.
func (t *gangTrial) Node(node int) suppose.Node {
	return suppose.On(t.nodes[node].account, t.rooms[node]())
}

// Admits implements plan.Field: Nodes has asked about everything that no member changes.
func (t *gangTrial) Admits(int, int) bool { return true }

// Put implements plan.Field.
func (t *gangTrial) Put(int, int) {}

// Take implements plan.Field.
func (t *gangTrial) Take(int, int) {}

// lacking asks every node again about the member that got none, with its mates in their places.
func (t *gangTrial) lacking(p *plan.Plan) *Lacking {
	mates := map[int]int{}
	for _, at := range p.Places {
		mates[at.Node]++
	}
	k := t.kinds[t.gang.Members[p.Lacking].Kind]
	if k.said == nil {
		t.Nodes(t.gang.Members[p.Lacking].Kind)
	}
	out := &Lacking{Pod: t.pods[p.Lacking].Name, Nodes: make([]Answer, len(t.nodes))}
	inParallel(len(t.nodes), func(i int) {
		if out.Nodes[i] = k.said[i]; mates[i] > 0 {
			out.Nodes[i] = t.again(p, i)
			out.Nodes[i].Mates = mates[i]
		}
	})
	slices.SortStableFunc(out.Nodes, better)
	out.Groups = groupsOf(out.Nodes)
	return out
}

// again asks a node about the member that got none, with its mates where they would be.
func (t *gangTrial) again(p *plan.Plan, node int) (a Answer) {
	member := &t.gang.Members[p.Lacking]
	q, with, on := t.kinds[member.Kind].question, *t.nodes[node], p.Node(node)
	if with.account = on.Account(); on.Pins(&member.Pod) {
		q.request = member.Candidate.Request
	}
	a = q.askNode(t.survey, &with, nodeaffinity.GetRequiredNodeAffinity(q.pod), on.Room)
	if a.Answer != Waits || !on.Pins(&member.Pod) {
		return a
	}
	// Perhaps its mates' promises are all that is at risk.
	var d placement.Decision
	if said := on.Promise(&member.Pod, &d); said.Outcome == ledger.Refused {
		if refusal, ok := on.Account().View().Advise(member.Candidate.Request, nil); ok {
			a.Answer, a.Message, a.Advice, a.Refusal = Refuses, refusal.String(), refusal.Advice(), &refusal
			a.say(q.said)
		}
	}
	return a
}
