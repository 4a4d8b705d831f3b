package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// ExplainedGang explains why a gang's pods are on their nodes, or have no node.
type ExplainedGang struct {
	survey.Gang
	Scheduler string `json:"scheduler,omitempty"`
	// Pods are the members, sorted by name. A member with a node has its actual resources. A
	// waiting member has the resources that it would get now, or none if it would get no node.
	Pods []GangPod `json:"pods"`
	// Verdict describes the result of planning the waiting members now. It is "" if no plan was
	// made. Whole means that enough members have nodes, or would get them now.
	Verdict string `json:"verdict,omitempty"`
	Whole   bool   `json:"whole"`
	// Fit is how many members have succeeded, have a node, or would get one now.
	Fit int `json:"fit"`
	// Lacking is the first member that would get no node, or nil.
	Lacking *Lacking `json:"lacking,omitempty"`

	Notes []string `json:"notes,omitempty"`
}

// GangPod is a member with its present or possible resources.
type GangPod struct {
	Name string `json:"name"`
	Task string `json:"task,omitempty"`
	// State is "would fit" for a waiting member that would get a node now. For other members, it is
	// survey.Pod.State.
	State string `json:"state"`
	Node  string `json:"node,omitempty"`
	// NUMANodes are the NUMA nodes that the member has or would get.
	NUMANodes string `json:"numaNodes,omitempty"`
	// Certainty is the wire.Certainty of the member's promise, or of the promise that it would get;
	// "" if nothing is pinned.
	Certainty string `json:"certainty,omitempty"`
}

// StateWouldFit is the state of a waiting member that would get a node now.
const StateWouldFit = "would fit"

// Lacking is a member that would get no node, with the nodes' answers about it. For these answers,
// the other members are at their planned places.
type Lacking struct {
	Pod    string   `json:"pod"`
	Groups []Group  `json:"groups"`
	Nodes  []Answer `json:"nodes"`
}

// ExplainGang explains why the pods of a gang are on their nodes, or have none. notes describe
// problems with the data of the gang.
func ExplainGang(ctx context.Context, b Base, g *survey.Gang, notes []string) (*ExplainedGang, error) {
	s, err := b.Survey(ctx, "")
	if err != nil {
		return nil, err
	}
	e := &ExplainedGang{Gang: *g, Fit: g.Bound + g.Succeeded, Whole: g.State == gangs.Whole}
	e.listPods(s)
	if len(g.Waiting) > 0 && g.State != gangs.Wrong && g.State != gangs.Forming {
		if err := e.askNow(ctx, b.Cluster(), s); err != nil {
			return nil, err
		}
	}
	e.Notes = slices.Concat(s.Notes, notes, e.Notes) // s.Notes is read after askNow, which may add to it
	return e, nil
}

// askNow plans the waiting members. It does not change the cluster.
func (e *ExplainedGang) askNow(ctx context.Context, c *survey.Cluster, s *survey.Survey) error {
	left := gangs.Needed(&e.Spec, &e.Done)
	if e.State == gangs.Whole { // further members are scheduled one by one
		left = gangs.Count{}
	}
	t := newTrialNodes(s, gangs.Together(e.Waiting, taskOf, wire.MaxGang, left.Tasks))
	t.asks = gangfit.Question{Gang: plan.Gang{Minimum: left.All, Tasks: left.Tasks}, Done: e.Fit, Start: cmp.Or(e.Minimum, 1), Budget: plan.NewBudget(ctx)}
	asked := gangs.Asked{Pods: t.pods, Node: t.number, Candidate: func(pod *corev1.Pod) (*ledger.Candidate, error) {
		ask, err := c.Terms.ReadPod(pod)
		if err != nil || !ask.Request.Pinnable() {
			return nil, err
		}
		return &ledger.Candidate{Request: &ask.Request, Created: pod.CreationTimestamp.Unix(), Mortal: wire.Mortal(pod)}, ask.RulesErr
	}}
	for _, pod := range t.pods {
		asked.Tasks = append(asked.Tasks, taskOf(pod))
	}
	placed := slices.DeleteFunc(slices.Clone(e.Gang.Pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" || !gangs.Active(pod) })
	if slices.ContainsFunc(t.pods, wire.AsksMates) || slices.ContainsFunc(placed, wire.AsksMates) {
		asked.Seated = placed
	}
	if err := asked.Ask(&t.asks); err != nil {
		e.Verdict = err.Error()
		return nil
	}
	claim := minResourcesOf(&e.Gang)
	if claim != nil {
		notes, err := t.keep(ctx, c)
		if err != nil {
			return err
		}
		e.Notes = append(e.Notes, notes...)
	}
	if err := t.prepare(ctx, c, claim); err != nil {
		return err
	}
	wrong, notes, err := t.findDevices(ctx, c)
	if e.Notes = append(e.Notes, notes...); wrong != "" || err != nil {
		e.Verdict = wrong
		return err
	}
	t.answer(e, t.asks.Ask(t))
	return ctx.Err()
}

// minResourcesOf returns the minResources that the nodes must have available before the scheduler
// admits the group, less the requests of members that already have nodes or have succeeded. It
// returns nil if the group was admitted or has no minResources. It cannot subtract the resources
// that the scheduler keeps for other groups: only the scheduler knows them, and names them in the
// group's status.
func minResourcesOf(g *survey.Gang) *gangfit.Claim {
	if len(g.Spec.Resources) == 0 || !gangs.NotLetIn(g.Spec.Phase) {
		return nil
	}
	c := &gangfit.Claim{Asked: wire.ReadResources(g.Spec.Resources)}
	var counting []*corev1.Pod
	for _, pod := range g.Pods {
		if gangs.Done(pod, pod.Spec.NodeName != "") {
			c.Asked.Take(wire.ReadAmounts(pod))
			c.Asked.Take(amounts.List{amounts.Pods: 1})
		}
		if gangs.Active(pod) {
			counting = append(counting, pod)
		}
	}
	c.Priority, c.EvictsNobody = gangs.LowestPriority(counting), !gangs.MayPreempt(g.Waiting)
	return c
}

func (e *ExplainedGang) listPods(s *survey.Survey) {
	for _, pod := range e.Gang.Pods {
		sum, _ := s.Pod(pod)
		e.Scheduler = nameOfScheduler(pod)
		e.Pods = append(e.Pods, GangPod{Name: pod.Name, Task: taskOf(pod), State: sum.State, Node: sum.Node, NUMANodes: sum.NUMANodes, Certainty: sum.Certainty})
	}
	slices.SortFunc(e.Pods, func(a, b GangPod) int { return cmp.Compare(a.Name, b.Name) })
}

// trialNodes are the nodes of a survey on which a gang's waiting members are placed in a trial. It
// implements plan.Field and gangfit.Reporting.
type trialNodes struct {
	plan.Uncoupled // affinity between pods is ignored
	survey         *survey.Survey
	// pods are the members that are planned together, the oldest first.
	pods  []*corev1.Pod
	asks  gangfit.Question
	kinds []*gangKind
	nodes []*survey.NodeState
	// rooms has, by node, a function that returns the free amounts.
	rooms []func() *amounts.Node
	// classes are the extended resources of DeviceClasses. It is nil if neither a member nor the
	// group requests such a resource.
	classes map[corev1.ResourceName]bool
	// devices is nil if no member has claims.
	devices *gangDevices
	// kept lists the gangs whose PodGroups protect them from eviction. It is set only if the group
	// has minResources.
	kept map[string]bool
	now  time.Time
}

// gangKind is a set of members with the same requests. A node gives the same answer to all of them.
type gangKind struct {
	question
	// among has the indices in trialNodes.nodes of the nodes that match the pod's node selector and
	// node affinity, in ascending order. said has their answers before any member is placed; nil
	// until they are asked.
	among []int
	said  []Answer
}

var (
	_ plan.Field        = (*trialNodes)(nil)
	_ gangfit.Reporting = (*trialNodes)(nil)
)

func newTrialNodes(s *survey.Survey, pods []*corev1.Pod) *trialNodes {
	t := &trialNodes{survey: s, pods: pods}
	for _, name := range s.Names() {
		n := s.States[name]
		t.nodes = append(t.nodes, n)
		t.rooms = append(t.rooms, sync.OnceValue(func() *amounts.Node { return nodestate.RoomOf(n.Object, n.Bound, t.classes) }))
	}
	return t
}

// number returns the index of a node in t.nodes, and its ledger.
func (t *trialNodes) number(name string) (int, *ledger.Node) {
	at := slices.IndexFunc(t.nodes, func(n *survey.NodeState) bool { return n.Name == name })
	if at < 0 {
		return plan.Elsewhere, nil
	}
	return at, t.nodes[at].Account
}

// prepare creates the question about each kind from the kind's first pod.
func (t *trialNodes) prepare(ctx context.Context, c *survey.Cluster, claim *gangfit.Claim) (err error) {
	all := amounts.List{}
	t.now = c.From.Now()
	for _, k := range t.asks.Kinds {
		pod := t.pods[k.First]
		ask, err := c.Terms.ReadPod(pod)
		if err != nil {
			return err
		}
		q := question{pod: pod, request: &ask.Request, said: ask.Said, rulesErr: ask.RulesErr, created: pod.CreationTimestamp.Unix(), amounts: wire.ReadAmounts(pod)}
		all.Add(q.amounts)
		t.kinds = append(t.kinds, &gangKind{question: q})
	}
	if claim != nil {
		all.Add(claim.Asked)
	}
	if t.classes, err = classesFor(ctx, t.survey, c, all); err != nil {
		return err
	}
	for _, k := range t.kinds {
		k.classes = t.classes
	}
	if t.asks.Claim = claim; claim != nil {
		maps.DeleteFunc(claim.Asked, func(name string, _ int64) bool { return t.classes[corev1.ResourceName(name)] }) // only the driver knows what is free
	}
	t.asks.Room = t.room
	return nil
}

func (t *trialNodes) keep(ctx context.Context, c *survey.Cluster) (notes []string, err error) {
	objects, err := c.From.GroupsIn(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	t.kept = map[string]bool{}
	for _, raw := range objects.List {
		if spec, _, err := survey.ReadGroup(raw); err == nil && spec.Kept {
			t.kept[spec.Key.String()] = true
		}
	}
	return objects.Notes, nil
}

// room returns the resources of the nodes for the check of minResources.
func (t *trialNodes) room(bool) *gangfit.Room {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for _, n := range t.nodes {
		if n.Object != nil {
			nodes, pods = append(nodes, n.Object), append(pods, n.Bound...)
		}
	}
	return gangs.RoomOn(nodes, pods, func(pod *corev1.Pod) gangfit.Occupant {
		o := gangfit.Occupant{Priority: corev1helpers.PodPriority(pod), Leaving: pod.DeletionTimestamp != nil, Stays: wire.KeptFromEviction(pod), Fixed: gangs.Fixed(pod, t.now)}
		if part, of := gangs.PartOf(pod, true); of {
			o.Gang = part.Says.Gang.String()
			o.Stays = o.Stays || t.kept[o.Gang]
		}
		return o
	})
}

func (t *trialNodes) answer(e *ExplainedGang, v *gangfit.Verdict) {
	e.Verdict, e.Fit, e.Whole = v.String(), v.Fit, e.Whole || v.Whole
	if said := e.Spec.Unschedulable; v.Whole && strings.HasPrefix(said, gangfit.Named) {
		e.Verdict, e.Whole = e.Verdict+", but the scheduler last said: "+said, false
	}
	if v.Cut {
		return
	}
	by := map[string]*GangPod{}
	for i := range e.Pods {
		by[e.Pods[i].Name] = &e.Pods[i]
	}
	for _, at := range v.Places {
		one := by[t.pods[at.Member].Name]
		one.State, one.Node, one.NUMANodes = StateWouldFit, t.nodes[at.Node].Name, at.Got.NUMA.String()
		if c := wire.VerdictOnly; at.Got.NUMA != 0 {
			if at.Got.Exact {
				c = wire.Exact
			}
			one.Certainty = c.String()
		}
	}
	if v.Lacking < 0 {
		return
	}
	if !v.Whole {
		e.Verdict += t.never()
	}
	e.Lacking = t.lacking(&v.Plan)
}

// never names a resource of which all nodes together have too little for the members that must
// start together, even if the nodes were empty. It returns "" if there is none. It assumes that the
// members with the smallest requests start.
func (t *trialNodes) never() string {
	asked := map[string][]int64{}
	for _, pod := range t.pods {
		for name, amount := range wire.ReadAmounts(pod) {
			asked[name] = append(asked[name], amount)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		least := slices.Sorted(slices.Values(append(asked[name], make([]int64, len(t.pods)-len(asked[name]))...)))
		want := int64(0)
		for _, amount := range least[:min(t.asks.Minimum, len(least))] {
			want += amount
		}
		all := int64(0)
		for _, room := range t.rooms {
			has, told := room().Allocatable(name)
			if !told {
				return ""
			}
			all += has
		}
		if all > 0 && want > all {
			has, wants := amounts.Texts(name, all, want)
			return fmt.Sprintf("; even empty nodes would not be enough: they have %s %s in total, and these pods ask for %s", has, amounts.Name(name, all), wants)
		}
	}
	return ""
}

// nodeLooks is the cost of asking a node about a kind, in units of the plan's budget. matchLooks is
// the number of nodes that are compared with a node selector for the cost of 1.
const (
	nodeLooks  = 4
	matchLooks = 16
)

// Nodes implements plan.Field. It returns the nodes that admit members of the kind or wait for a
// report, in the order of the scheduler's default scoring. It asks only nodes that match the pod's
// node selector and affinity: if Kueue has assigned a host to each pod, each pod is a kind of its
// own, and the budget is not enough to ask all nodes about each.
func (t *trialNodes) Nodes(kind int) []int {
	k := t.kinds[kind]
	if k.said == nil {
		affinity := nodeaffinity.GetRequiredNodeAffinity(k.pod)
		for i, n := range t.nodes {
			match := n.Object == nil // it is not known
			if !match {
				match, _ = affinity.Match(n.Object)
			}
			if match {
				k.among = append(k.among, i)
			}
		}
		k.said = make([]Answer, len(k.among))
		if !t.asks.Budget.Spend(len(t.nodes)/matchLooks + nodeLooks*len(k.among)) {
			return nil
		}
		parallel.Do(len(k.among), func(i int) { k.said[i] = t.askFirst(k, affinity, k.among[i]) })
	}
	var out []int
	for i := range k.said {
		if k.said[i].Answer == Admits || k.said[i].Answer == Waits {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return better(k.said[a], k.said[b]) })
	for i, at := range out {
		out[i] = k.among[at]
	}
	return out
}

// askFirst returns a node's answer about the kind before any member is placed.
func (t *trialNodes) askFirst(k *gangKind, affinity nodeaffinity.RequiredNodeAffinity, node int) Answer {
	return k.askNode(t.survey, t.nodes[node], affinity, t.rooms[node])
}

// Node implements plan.Field.
func (t *trialNodes) Node(node int) suppose.Node {
	return suppose.On(t.nodes[node].Account, t.rooms[node]())
}

// Admits implements plan.Field. It always returns true, because Nodes has already checked
// everything that does not depend on other members.
func (t *trialNodes) Admits(int, int) bool { return true }

// Waiting implements gangfit.Reporting. It returns no nodes, because Nodes includes the nodes that
// wait for a report.
func (t *trialNodes) Waiting(int) []int { return nil }

// Hoped implements gangfit.Reporting.
func (t *trialNodes) Hoped(node int) suppose.Node { return suppose.On(nil, t.rooms[node]()) }

// Hopes implements gangfit.Reporting.
func (t *trialNodes) Hopes(int, int) bool { return true }

// Suits implements plan.Field.
func (t *trialNodes) Suits(member, node int, would plan.Lies, again plan.Again) bool {
	return t.devices == nil || t.devices.give(t, member, node, would, again)
}

// Put implements plan.Field.
func (t *trialNodes) Put(int, int) {}

// Take implements plan.Field.
func (t *trialNodes) Take(member, _ int) {
	if t.devices != nil {
		t.devices.trial.Take(t.pods[member].UID)
	}
}

// lacking collects the nodes' answers about the member that got no node. Nodes on which other
// members were planned are asked again, with these members.
func (t *trialNodes) lacking(p *plan.Plan) *Lacking {
	mates := map[int]int{}
	for _, at := range p.Places {
		mates[at.Node]++
	}
	k := t.kinds[t.asks.Members[p.Lacking].Kind]
	t.Nodes(t.asks.Members[p.Lacking].Kind) // asks the nodes, unless the plan has asked
	out, affinity := &Lacking{Pod: t.pods[p.Lacking].Name, Nodes: make([]Answer, len(t.nodes))}, nodeaffinity.GetRequiredNodeAffinity(k.pod)
	parallel.Do(len(t.nodes), func(i int) {
		at, asked := slices.BinarySearch(k.among, i)
		switch {
		case mates[i] > 0:
			out.Nodes[i] = t.again(p, i)
			out.Nodes[i].Mates = mates[i]
		case asked:
			out.Nodes[i] = k.said[at]
		default:
			out.Nodes[i] = t.askFirst(k, affinity, i)
		}
	})
	if t.devices != nil {
		t.devices.explain(t, p, out.Nodes)
	}
	slices.SortStableFunc(out.Nodes, better)
	out.Groups = groupsOf(out.Nodes)
	return out
}

// again asks a node again about the member that got no node, with the other members at their
// planned places.
func (t *trialNodes) again(p *plan.Plan, node int) (a Answer) {
	member := &t.asks.Members[p.Lacking]
	q, with, on := t.kinds[member.Kind].question, *t.nodes[node], p.Node(node)
	if with.Account = on.Account(); on.Pins(&member.Pod) {
		q.request = member.Candidate.Request
	}
	a = q.askNode(t.survey, &with, nodeaffinity.GetRequiredNodeAffinity(q.pod), on.Room)
	if a.Answer != Waits || !on.Pins(&member.Pod) {
		return a
	}
	// A node may answer Waits because the member would endanger the promises to other members. In
	// this case, Promise refuses the member, and the answer becomes Refuses.
	var d placement.Decision
	if said := on.Promise(&member.Pod, &d); said.Outcome == ledger.Refused {
		if refusal, ok := on.Account().View().Advise(member.Candidate.Request, nil); ok {
			a.Answer, a.Message, a.Advice, a.Refusal = Refuses, refusal.String(), refusal.Advice(), &refusal
			a.say(q.said)
		}
	}
	return a
}

// taskOf returns the member's task, or "".
func taskOf(pod *corev1.Pod) string {
	says, _ := wire.ReadMembership(pod) // an error appears in the gang's Why
	return says.Task
}
