package query

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Explained explains why a pod is on its node, or has no node.
type Explained struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
	Phase     string `json:"phase"`
	Scheduler string `json:"scheduler"`
	Node      string `json:"node,omitempty"`
	// Message is the scheduler's message on a pending pod, or the kubelet's message on a failed
	// pod.
	Message string `json:"message,omitempty"`
	// Asks has, for each container, the CPUs, memory and devices that it requests. Pinnable means
	// that some kubelet could pin them, at least in part.
	Asks     []string `json:"asks"`
	Pinnable bool     `json:"pinnable"`
	// Decided means that Berth decides about the pod on at least one node. Berth decides about
	// every Pinnable pod, and about a pod that accepts only the place of a Reservation. On some
	// nodes, such as nodes with authority berth, it also decides about other pods. If Decided is
	// false, no node is asked.
	Decided bool `json:"decided"`
	// NotGuaranteed describes the requests and limits that keep the pod from the QoS class
	// Guaranteed, or is "".
	NotGuaranteed string `json:"notGuaranteed,omitempty"`
	// Ignored lists annotations and labels of the pod that have no effect, with the reasons.
	Ignored []string `json:"ignored,omitempty"`
	// Fractions explains why containers of a Guaranteed pod get no exclusive CPUs.
	Fractions []string `json:"fractions,omitempty"`

	Membership
	// Reservations are the Reservations whose places the pod may use, because it is one of their
	// owners. If the pod already uses one of them, only this one is listed.
	Reservations []Owned `json:"reservations,omitempty"`
	// Resize is the state of an unfinished in-place resize, or "".
	Resize string `json:"resize,omitempty"`
	// Unserved is set if no scheduler seems to have looked at the pod. Its message tells whether a
	// scheduler with the pod's schedulerName was found.
	Unserved *survey.Trouble `json:"unserved,omitempty"`
	// HeldBack is a reason why a pending pod gets no node, or nil. The nodes' answers do not cover
	// this reason.
	HeldBack *HeldBack `json:"heldBack,omitempty"`

	survey.Bound
	Answers
	// Claims are the pod's ResourceClaims, in the order of spec.resourceClaims.
	Claims []Claimed `json:"claims,omitempty"`

	Notes []string `json:"notes,omitempty"`
}

// Membership describes the gang of a pod. It is empty if the pod has no gang.
type Membership struct {
	// Gang names the pod's gang together with the way in which it is declared
	// (wire.GangKey.String). GangName is only the gang's name. Both are "" if the pod has no gang.
	Gang     string `json:"gang,omitempty"`
	GangName string `json:"gangName,omitempty"`
	// MemberOf has the gang's state and pods. It is nil if gangs could not be read. If the pod's
	// own declaration is invalid, it is a gang with State wrong, which may have no name.
	MemberOf *survey.Gang `json:"memberOf,omitempty"`
}

// Answers shows which nodes would admit the pod now. About a pending pod, Explain asks all nodes,
// or only the named node. Explained.askAgain chooses the nodes that are asked about a bound pod.
type Answers struct {
	// If no node admits the pod, Fits is a request for fewer CPUs that would fit now. It is nil if
	// there is none.
	Fits *FewerCPUs `json:"fits,omitempty"`
	// If no node admits the pod, Alternatives are changed requests that would fit now, at most one
	// for each resource that the pod requests.
	Alternatives []Alternative `json:"alternatives,omitempty"`
	// Nodes has the answers of the nodes, the best first. Groups has the same answers, grouped.
	Groups []Group  `json:"groups,omitempty"`
	Nodes  []Answer `json:"nodes,omitempty"`
}

// The values of Answer.Answer.
const (
	Admits     = "admits"
	Waits      = "waits"
	Refuses    = "refuses"
	Unreliable = "unreliable" // the node's report cannot be relied on
	Excluded   = "excluded"   // the pod could not run there even if the node were empty
)

// answerOrder is the order of answers in the output.
var answerOrder = []string{Admits, Waits, Refuses, Unreliable, Excluded}

// Answer is one node's answer to the question whether it would admit the pod.
type Answer struct {
	Node    string `json:"node"`
	Answer  string `json:"answer"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	Report  int64  `json:"report,omitempty"`
	// InFlight is the number of pods that are bound to the node and not yet in its report.
	InFlight int `json:"inFlight,omitempty"`
	// Mates is the number of other members of the pod's gang that a plan would place on this node.
	Mates int `json:"mates,omitempty"`
	// SilentSeconds is how long the node's agent has been silent. It is set only if the node's
	// report is unreliable for this reason.
	SilentSeconds int64 `json:"silentSeconds,omitempty"`

	NUMANodes string `json:"numaNodes,omitempty"`
	// NUMACount is the number of NUMA nodes that the pod would get, or 0 if nothing would be
	// pinned.
	NUMACount int `json:"numaCount,omitempty"`
	// Choice has the values by which the scheduler chooses among the nodes that admit the pod. It
	// is nil if this node does not admit the pod, or if no kubelet pins anything for the pod.
	Choice  *Choice            `json:"choice,omitempty"`
	Refusal *placement.Refusal `json:"refusal,omitempty"`

	// Given has, for each resource of a provider that the pod requests, the amounts in use.
	Given []survey.Given `json:"given,omitempty"`

	// tooLarge means that the node is excluded only because its total amounts are too small.
	tooLarge bool
}

// Group is a group of nodes with the same answer.
type Group struct {
	Answer  string   `json:"answer"`
	Message string   `json:"message"`
	Advice  string   `json:"advice,omitempty"`
	Nodes   []string `json:"nodes"`
	// Labels has a text for each node of Nodes: its name and, if its agent is silent, for how long
	// (Answer.label).
	Labels []string `json:"-"`

	advices []advised
}

// Explain explains why the named pod is on its node, or has no node. The argument `only` is the
// name of one node to ask, or "" for all nodes.
func Explain(ctx context.Context, b Base, namespace, name, only string) (*Explained, error) {
	pod, err := b.PodNamed(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	c := b.Cluster()
	ask, err := c.Terms.ReadPod(pod)
	if err != nil {
		return nil, err
	}
	e := about(pod, &ask.Request)
	s, err := surveyFor(ctx, e, pod, &ask, b, only)
	if err != nil {
		return nil, err
	}
	if only != "" && s.States[only] == nil {
		return nil, c.NoNode(s, only)
	}
	q, err := newQuestion(ctx, c, s, pod, &ask)
	if err != nil {
		return nil, err
	}
	q.only = only
	e.Reservations = reservationsOf(s, pod)
	affinity, err := wire.ReadReservationAffinity(pod)
	q.owned, q.heldOnly, q.rulesErr = e.Reservations, affinity != nil, cmp.Or(q.rulesErr, err)
	q.request, q.provided = withoutProvided(s, q.request)
	e.Notes = s.Notes
	e.ignores(pod, &ask.Request, s.States[e.Node])
	if wire.InGang(pod) {
		e.joins(ctx, pod, b)
	}
	if e.Node == "" {
		askWhoServes(ctx, c, s, pod, e)
		e.ask(s, q)
		e.holdBack(ctx, c, s, pod)
	} else {
		has := &ask.Request
		if held, err := wire.ReadBound(pod); err == nil {
			has = &held.Request
		}
		e.Bound, e.Resize = s.BoundTo(pod, has)
		e.askAgain(s, q)
	}
	return e, e.explainClaims(ctx, c, s, q)
}

// ignores records which annotations and labels of the pod have no effect on its node. For a pod
// without a node, it records the annotations and labels that would have no effect on a node where a
// kubelet decides.
func (e *Explained) ignores(pod *corev1.Pod, r *placement.Request, on *survey.NodeState) {
	warnings := wire.IgnoredKeys(pod, pod.Spec.SchedulerName)
	if w, shares := wire.CPUsShared(pod); shares && (on == nil || !on.Decides() && !givesWhole(on, r)) {
		warnings = append(warnings, w)
	}
	if w, none := wire.NoDevices(pod); none {
		warnings = append(warnings, w)
	}
	for _, w := range warnings {
		e.Ignored = append(e.Ignored, w.Text)
	}
}

func (e *Explained) joins(ctx context.Context, pod *corev1.Pod, b Base) {
	all, err := b.Gangs(ctx)
	if err != nil {
		e.Notes = append(slices.Clone(e.Notes), "the state of the pod's gang is not known: "+err.Error())
		return
	}
	e.MemberOf = all.Of(pod)
}

// onlyNode returns the node that must be surveyed, or "" if all nodes must be surveyed.
func onlyNode(e *Explained, only string) string {
	switch {
	case e.Node == "" || e.Node == only:
		return only
	case only == "" && (e.Refused || e.ended() || !e.Pinnable):
		return e.Node
	}
	return ""
}

// surveyFor surveys the nodes that the explanation of a pod needs: one node, or all.
func surveyFor(ctx context.Context, e *Explained, pod *corev1.Pod, ask *wire.Ask, b Base, only string) (*survey.Survey, error) {
	one := onlyNode(e, only)
	s, err := b.Survey(ctx, one)
	if err != nil || one == "" || e.Pinnable {
		return s, err
	}
	switch {
	case e.Node == "" && ask.RulesErr != nil: // Berth may decide on any node, so ask all
	case e.Node != "" && only == "" && !e.Refused && !e.ended() && hasSay(s.States[e.Node], pod, &ask.Request):
	default:
		return s, nil
	}
	return b.Survey(ctx, "")
}

func (e *Explained) ended() bool {
	return e.Phase == string(corev1.PodSucceeded) || e.Phase == string(corev1.PodFailed)
}

func about(pod *corev1.Pod, r *placement.Request) *Explained {
	e := &Explained{
		Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), Phase: cmp.Or(string(pod.Status.Phase), "Pending"),
		Scheduler: nameOfScheduler(pod), Node: pod.Spec.NodeName,
		Asks: survey.AsksText(r), Pinnable: r.Pinnable(), NotGuaranteed: wire.NotGuaranteed(pod), Fractions: survey.Fractions(r), Bound: survey.Bound{Refused: wire.Refused(pod)},
	}
	if says, _ := wire.ReadMembership(pod); !says.Gang.IsZero() { // an error appears in MemberOf.Why
		e.Gang, e.GangName = says.Gang.String(), says.Gang.Name
	}
	switch pod.Status.Phase {
	case corev1.PodFailed:
		e.Message = strings.TrimPrefix(pod.Status.Reason+": "+pod.Status.Message, ": ")
	case corev1.PodPending, "":
		e.Message = wire.Unscheduled(pod).Message
	}
	return e
}

// question is a pod with all data that is needed to ask nodes about it.
type question struct {
	pod     *corev1.Pod
	request *placement.Request
	// said maps Berth's annotation keys to the keys that the pod uses. rulesErr is the error if the
	// pod's rules cannot be read.
	said     wire.Said
	rulesErr error
	// created is the pod's creation time, in Unix seconds.
	created int64
	amounts amounts.List
	// classes are the extended resources through which pods can request devices of DeviceClasses.
	classes map[corev1.ResourceName]bool
	// noNode has the advice about each requirement of the pod that no node meets (noNodeHas).
	noNode map[string]string
	// If `only` is not "", only the node with this name is asked.
	only string
	// owned are the Reservations of which the pod is an owner.
	owned []Owned
	// heldOnly means that the pod accepts only a Reservation's place.
	heldOnly bool
	// provided has the resources of providers that the pod requests. The field request does not
	// contain them.
	provided []string
	// demand has the demand for each node's devices (package demand), by name of the node. It is
	// nil if the answers do not depend on demand: for pods for which no kubelet pins anything, and
	// for members in the plan of a gang.
	demand map[string]demand.Level
}

// newQuestion returns the question about a pod; `ask` is what was read from the pod.
func newQuestion(ctx context.Context, c *survey.Cluster, s *survey.Survey, pod *corev1.Pod, ask *wire.Ask) (q *question, err error) {
	q = &question{pod: pod, request: &ask.Request, said: ask.Said, rulesErr: rulesErrOf(s, pod, ask), created: pod.CreationTimestamp.Unix(), amounts: wire.ReadAmounts(pod), demand: demandOf(s, &ask.Request)}
	if q.classes, err = classesFor(ctx, s, c, q.amounts); err != nil {
		return nil, err
	}
	q.noNode = noNodeHas(s, pod, q.amounts, q.classes)
	return q, nil
}

func (e *Explained) ask(s *survey.Survey, q *question) {
	names := q.asked(s, s.Names())
	if e.Decided = e.Pinnable || q.heldOnly || q.decided(s, names); !e.Decided {
		return
	}
	e.answered(q.ask(s, names))
	if len(e.Nodes) > 0 && e.Nodes[0].Answer != Admits {
		e.Alternatives = q.alternatives(s, e.Nodes)
		e.Fits = fitOf(e.Alternatives)
	}
}

// askAgain asks which nodes would admit an identical pod now. If the kubelet refused the pod, it
// asks the pod's own node. If the pod is running, it asks all other nodes. If the pod has ended, it
// asks no node. If q.only is set, it asks only that node instead, but not the pod's own node unless
// its kubelet refused the pod.
func (e *Explained) askAgain(s *survey.Survey, q *question) {
	e.Decided = e.Pinnable || hasSay(s.States[e.Node], q.pod, q.request)
	again := *q.request
	again.UID = "again/" + again.UID // the refused pod may still hold resources on its node
	if e.Refused && onlyNode(e, q.only) == e.Node {
		again.Rules = placement.Rules{} // the kubelet that refused the pod applies no rules
	}
	q.request, q.created = &again, s.Now.Unix()
	var names []string
	switch {
	case !e.Decided:
	case e.Refused && q.only == "":
		names = []string{e.Node}
	case e.Refused || !e.ended() || q.only != "":
		names = slices.DeleteFunc(s.Names(), func(n string) bool { return n == e.Node && !e.Refused })
	}
	e.answered(q.ask(s, names))
	has := s.States[e.Node].NUMANodes(e.UID).Len()
	for i := range e.Nodes {
		if a := &e.Nodes[i]; a.Answer == Admits && a.NUMACount < has && q.hasSay(s.States[a.Node]) {
			e.Fewer = append(e.Fewer, a.Node)
		}
	}
}

// answered stores the answers of nodes. If the pod has a node whose kubelet did not refuse it,
// answered removes the advice of nodes that would refuse the pod.
func (e *Explained) answered(answers []Answer) {
	for i := range answers {
		if a := &answers[i]; a.Answer == Refuses && e.Node != "" && !e.Refused {
			a.Advice = ""
		}
	}
	e.Nodes, e.Groups = answers, groupsOf(answers)
}

// asked removes names of nodes that the survey does not have. If q.only is not "", it keeps only
// this name.
func (q *question) asked(s *survey.Survey, names []string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return s.States[n] == nil || q.only != "" && n != q.only })
}

func (q *question) ask(s *survey.Survey, names []string) []Answer {
	affinity := nodeaffinity.GetRequiredNodeAffinity(q.pod)
	names = q.asked(s, names)
	answers := make([]Answer, len(names))
	parallel.Do(len(names), func(i int) {
		n := s.States[names[i]]
		answers[i] = q.askNode(s, n, affinity, func() *amounts.Node { return q.room(n) })
	})
	slices.SortStableFunc(answers, better)
	return answers
}

// room returns the node's free amounts, including the amounts that a Reservation holds for the pod.
func (q *question) room(n *survey.NodeState) *amounts.Node {
	bound := n.Bound
	if from := q.from(n.Name); from != nil {
		bound = slices.DeleteFunc(slices.Clone(bound), func(p *corev1.Pod) bool { return string(p.UID) == from.uid })
	}
	return nodestate.RoomOf(n.Object, bound, q.classes)
}

// askNode asks one node. The function `room` returns the node's free amounts. Texts of the answer
// name rules by the annotation keys that the pod uses.
func (q *question) askNode(s *survey.Survey, n *survey.NodeState, affinity nodeaffinity.RequiredNodeAffinity, room func() *amounts.Node) (a Answer) {
	defer func() { a.say(q.said) }()
	a = Answer{Node: n.Name, Report: n.Sequence(), InFlight: n.InFlight}
	asked := q.hasSay(n) || s.Facts.NodesKnown && n.Object == nil // a missing node admits no pod
	if asked && n.Trouble != nil && n.Trouble.Reason == nodestate.Silent && !n.Heard.IsZero() {
		a.SilentSeconds = survey.Seconds(s.Now.Sub(n.Heard))
	}
	if n.Name != q.pod.Spec.NodeName { // no scheduler checks a pod that was bound by hand
		x, never := excluded(q.pod, n.Object, affinity), lacking(q.amounts, q.classes, n.Object)
		why := cmp.Or(x.why, q.unmet(n), never)
		a.tooLarge = why == never && n.Trouble == nil
		if why != "" {
			a.Answer, a.Message, a.Advice = Excluded, why, cmp.Or(q.adviceFor(why), x.advice)
			return a
		}
	}
	from := q.from(n.Name)
	if q.heldOnly && from == nil && n.Name != q.pod.Spec.NodeName {
		a.Answer, a.Message = Excluded, "the pod accepts only a place that a Reservation holds for it ("+wire.ReservationAffinityAnnotation+")"
		return a
	}
	if from != nil {
		a.Answer, a.Message = Admits, "would take the pod, in the place that Reservation "+from.Name+" holds"
	} else if asked {
		q.answer(n, &ledger.Candidate{Request: q.request, Created: q.created}, &a)
		q.advise(n, room, &a)
	} else {
		a.Answer, a.Message = Admits, "would take the pod"
	}
	besideProvided(n, q.provided, &a)
	if a.Answer != Admits {
		return a
	}
	if why := short(q.amounts, wire.PortsOf(q.pod), room()); why != "" {
		a.Answer, a.Message = Refuses, why
	}
	return a
}

// unmet explains why a node cannot meet the pod's rules, or returns "". It returns "" if Berth does
// not decide about the pod on the node. It also returns "" if Berth cannot predict the node's
// kubelet, because then the node's answer describes that problem.
func (q *question) unmet(n *survey.NodeState) string {
	switch {
	case !q.hasSay(n):
		return ""
	case q.rulesErr != nil:
		return "the scheduler cannot read the pod: " + q.rulesErr.Error()
	case n.Reading == nil || n.Reading.Kind == nil || n.Reading.Kind.Model == nil:
		return ""
	}
	return wire.Unmet(n.Reading.Kind.Model, q.request)
}
