package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Wanted is the template of a pod that does not exist yet, and the number of its replicas.
type Wanted = manifest.Template

// FitOptions are the options of Fit.
type FitOptions struct {
	// Nodes are the nodes to ask; empty means all. Setting applies only to them.
	Nodes []string
	// Limit is the maximum number of copies that are counted on each node.
	Limit int
	// Setting is the assumed change of the nodes.
	Setting Setting
	// Draw asks for Pictures.
	Draw bool
	// Templates are ResourceClaimTemplates from the same files as the pods.
	Templates []resourcev1.ResourceClaimTemplate
}

// Fitting is the answer about a pod that does not exist: the nodes on which it would be placed now,
// and the reasons why other nodes refuse it.
type Fitting struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Replicas  int    `json:"replicas"`
	// Asks has, for each container, the CPUs, memory and devices that it requests. Pinnable means
	// that some kubelet could pin them, at least in part.
	Asks     []string `json:"asks"`
	Pinnable bool     `json:"pinnable"`
	// Decided means that the pod is Pinnable, or that Berth decides about it on at least one of the
	// asked nodes. For any other pod, Fit checks only amounts, host ports, taints, node selectors
	// and claims.
	Decided bool `json:"decided"`
	// Berths are the places of the replicas, at most maxBerths. Fit places them one after the other
	// until one does not fit. If the pod is not Pinnable, Berths is empty, because other plugins
	// choose among the nodes.
	Berths []Berthed `json:"berths"`
	// Placed is the number of tried replicas that fit. Untried is the number of replicas beyond
	// maxBerths, which were not tried.
	Placed  int `json:"placed"`
	Untried int `json:"untried,omitempty"`
	// Copies is the total number of copies that fit, including replicas. Nodes has the number of
	// copies on each node. A node that has reached Limit may have room for more.
	Copies int       `json:"copies"`
	Groups []Group   `json:"groups,omitempty"`
	Nodes  []NodeFit `json:"nodes,omitempty"`
	// Claims explains the ResourceClaims of one copy. A node that lacks devices for one copy admits
	// no copy. Berths and Copies ignore the devices of further copies.
	Claims []Claimed `json:"claims,omitempty"`
	// NotAsked lists rules that Fit does not check and that may exclude nodes for the pod.
	NotAsked []string `json:"notAsked,omitempty"`
	// Pictures show the first nodes of Berths, with the copies at their places.
	Pictures []Picture `json:"-"`

	claimNotes []string
}

// lacksDevices explains why a node lacks devices for the pod's claims or, if the pod requires near
// devices, lacks devices near the pod's CPUs. It returns "" if nothing is lacking, or if this is
// not known.
func lacksDevices(all []Claimed, node string) string {
	for i := range all {
		c := &all[i]
		if at := slices.IndexFunc(c.Nodes, func(n ClaimOnNode) bool { return n.Node == node && n.lacks }); at >= 0 {
			why := "claim " + c.Name + ": " + c.Nodes[at].Message
			if c.Asks != "" {
				why = `"` + wire.ClaimsAnnotation + ": " + c.Asks + `": ` + why
			}
			return why
		}
	}
	return ""
}

func answersOf(all []NodeFit) []Answer {
	answers := make([]Answer, len(all))
	for i := range all {
		answers[i] = all[i].Answer
	}
	slices.SortStableFunc(answers, better)
	return answers
}

// Picture has the data for drawing a node with its pods.
type Picture struct {
	Node    string
	Machine *topology.Machine
	Berths  *machineview.Berths
}

// pictureOf returns the picture of a node in the given state, with pods that are not on the node
// yet. The error explains why nothing is known about the node.
func pictureOf(s *survey.Survey, n *survey.NodeState, coming []machineview.Tenant) (Picture, error) {
	with := *s
	with.States = map[string]*survey.NodeState{n.Name: n}
	b, err := with.Berths(n.Name)
	if err != nil {
		return Picture{}, err
	}
	b.Tenants = append(b.Tenants, coming...)
	return Picture{Node: n.Name, Machine: n.Machine(), Berths: b}, nil
}

// Notes on pods that are not on the node yet.
const (
	// WouldCome is the note on pods that Fit or MakeRoom has placed.
	WouldCome = "would come"
	movesHere = "moves here from "
)

// IsNew reports whether a note belongs to a pod that is not on the node yet.
func IsNew(note string) bool { return note == WouldCome || strings.HasPrefix(note, movesHere) }

const maxPictures = 4

// Berthed is one copy with its place.
type Berthed struct {
	Node       string             `json:"node"`
	NUMANodes  string             `json:"numaNodes,omitempty"`
	Exact      bool               `json:"exact"`
	Containers []survey.Container `json:"containers,omitempty"`
}

// NodeFit is a node's answer, and the number of copies that the node admits.
type NodeFit struct {
	Answer
	Copies int `json:"copies"`
	// ByNUMA counts copies by the NUMA nodes that they get, such as "0" or "0-1". The key is "" if
	// nothing is pinned.
	ByNUMA map[string]int `json:"byNUMANodes,omitempty"`
	// Next is the reason why the node refuses the next copy, or "" if Limit was reached.
	Next string `json:"next,omitempty"`
}

// maxBerths is the maximum number of replicas that are placed one by one.
const maxBerths = 200

// Fit determines where pods that do not exist would be placed now. It tries each workload
// separately, as if the other workloads did not exist.
func Fit(ctx context.Context, b Base, wanted []Wanted, o FitOptions) ([]Fitting, []string, error) {
	s, err := b.Survey(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	return fitAll(ctx, b.Cluster(), s, wanted, o)
}

func fitAll(ctx context.Context, c *survey.Cluster, s *survey.Survey, wanted []Wanted, o FitOptions) ([]Fitting, []string, error) {
	names, err := o.names(c, s)
	if err != nil {
		return nil, nil, err
	}
	s = o.Setting.on(s, names)
	out, notes := []Fitting{}, s.Notes
	for i := range wanted {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		f, err := fitOne(ctx, c, s, &wanted[i], names, &o)
		if err != nil {
			return nil, nil, err
		}
		for _, note := range f.claimNotes {
			if !slices.Contains(notes, note) {
				notes = append(slices.Clip(notes), note)
			}
		}
		out = append(out, *f)
	}
	return out, notes, nil
}

func (o *FitOptions) names(c *survey.Cluster, s *survey.Survey) ([]string, error) {
	for _, name := range o.Nodes {
		if s.States[name] == nil {
			return nil, c.NoNode(s, name)
		}
	}
	if len(o.Nodes) > 0 {
		return slices.Clone(o.Nodes), nil
	}
	return s.Names(), nil
}

// inNamespace returns a copy of the pod. If the pod has no namespace, the copy gets the Cluster's
// namespace, as with kubectl.
func inNamespace(c *survey.Cluster, pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.Namespace = cmp.Or(out.Namespace, c.Namespace)
	return out
}

func newFitter(ctx context.Context, c *survey.Cluster, s *survey.Survey, w *Wanted) (*fitter, error) {
	pod := inNamespace(c, w.Pod)
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{} // the user may have pasted a running pod
	ask, err := c.Terms.ReadPod(pod)
	if err != nil {
		return nil, err
	}
	if _, err := wire.ReadReservationAffinity(pod); err != nil {
		return nil, err
	}
	q, err := newQuestion(ctx, c, s, pod, &ask)
	if err != nil {
		return nil, err
	}
	q.created = s.Now.Unix() + 1
	return &fitter{question: q, survey: s, affinity: nodeaffinity.GetRequiredNodeAffinity(pod)}, nil
}

func fitOne(ctx context.Context, c *survey.Cluster, s *survey.Survey, w *Wanted, names []string, o *FitOptions) (*Fitting, error) {
	f, err := newFitter(ctx, c, s, w)
	if err != nil {
		return nil, err
	}
	out := &Fitting{
		Name: w.Pod.Name, Namespace: f.pod.Namespace, Replicas: w.Replicas, Asks: survey.AsksText(f.request), Pinnable: f.request.Pinnable(),
		Decided: f.decided(s, names), Nodes: make([]NodeFit, len(names)), NotAsked: notAsked(w.Pod), Berths: []Berthed{},
	}
	seats := make([]*seat, len(names))
	parallel.Do(len(names), func(i int) {
		if ctx.Err() != nil {
			return // fitOne returns an error
		}
		seats[i] = f.seat(names[i])
		seats[i].answer = f.ask(seats[i])
		out.Nodes[i] = f.count(*seats[i], o.Limit)
	})
	if err := out.explainClaims(ctx, c, s, f.question, answersOf(out.Nodes), o.Templates); err != nil {
		return nil, err
	}
	for i := range seats {
		if why := lacksDevices(out.Claims, names[i]); why != "" && seats[i].answer.Answer == Admits {
			seats[i].answer.Answer, seats[i].answer.Message, seats[i].answer.Choice = Refuses, why, nil
			out.Nodes[i] = NodeFit{Answer: seats[i].answer, Next: why}
		}
	}
	out.Untried = max(0, w.Replicas-maxBerths)
	for range w.Replicas - out.Untried {
		if ctx.Err() != nil {
			break
		}
		b, ok := f.next(seats)
		if !ok {
			break
		}
		out.Placed++
		if out.Pinnable { // for other pods, other plugins choose among the nodes
			out.Berths = append(out.Berths, b)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out.Nodes, func(a, b NodeFit) int { return better(a.Answer, b.Answer) })
	for i := range out.Nodes {
		out.Copies += out.Nodes[i].Copies
	}
	out.Groups = groupsOf(answersOf(out.Nodes))
	if o.Draw {
		out.Pictures = f.pictures(out.Berths, seats)
	}
	return out, nil
}

// pictures draws the first nodes with copies.
func (f *fitter) pictures(berths []Berthed, seats []*seat) (out []Picture) {
	for i := range berths {
		name := berths[i].Node
		if len(out) == maxPictures || slices.ContainsFunc(out, func(p Picture) bool { return p.Node == name }) {
			continue
		}
		s := seats[slices.IndexFunc(seats, func(s *seat) bool { return s.node.Name == name })]
		var coming []machineview.Tenant
		for j := range berths {
			if berths[j].Node == name {
				coming = append(coming, machineview.Tenant{UID: f.uid(len(coming)), Name: fmt.Sprintf("%s, copy %d", f.pod.Name, j+1), Note: WouldCome})
			}
		}
		if p, err := pictureOf(f.survey, s.with(), coming); err == nil { // otherwise the table shows the copy
			out = append(out, p)
		}
	}
	return out
}

// fitter places copies of one pod, one after another.
type fitter struct {
	*question
	survey   *survey.Survey
	affinity nodeaffinity.RequiredNodeAffinity
}

// seat is a node with the copies that were placed on it. `answer` is its answer about the next
// copy.
type seat struct {
	suppose.Node
	node   *survey.NodeState
	copies int
	answer Answer
}

func (f *fitter) seat(name string) *seat {
	n := f.survey.States[name]
	return &seat{Node: suppose.On(n.Account, f.room(n)), node: n}
}

func (s *seat) with() *survey.NodeState { return supposed(s.node, &s.Node) }

// supposed returns a copy of n with the Account of the supposed node.
func supposed(n *survey.NodeState, on *suppose.Node) *survey.NodeState {
	out := *n
	out.Account = on.Account()
	return &out
}

func (f *fitter) ask(s *seat) Answer {
	c := f.copyOf(s).Candidate
	if s.copies == 0 {
		q := *f.question
		if c != nil {
			q.request, q.created = c.Request, c.Created
		}
		return q.askNode(f.survey, s.node, f.affinity, s.Room)
	}
	a := Answer{Node: s.node.Name, Report: s.node.Sequence(), InFlight: s.node.InFlight, Answer: Admits, Message: "would take the pod"}
	if c != nil {
		f.answer(s.with(), c, &a)
		a.say(f.said)
	}
	if a.Answer == Admits {
		f.short(s, &a)
	}
	return a
}

func (f *fitter) short(s *seat, a *Answer) {
	if why := short(f.amounts, wire.PortsOf(f.pod), s.Room()); why != "" {
		a.Answer, a.Message, a.Choice = Refuses, why, nil
	}
}

func (f *fitter) copyOf(s *seat) *suppose.Pod {
	p := &suppose.Pod{Asks: f.amounts, Ports: wire.PortsOf(f.pod)}
	if f.hasSay(s.node) {
		r := *f.request
		r.UID = f.uid(s.copies)
		p.Candidate = &ledger.Candidate{Request: &r, Created: f.created + int64(s.copies)}
	}
	return p
}

func (f *fitter) uid(i int) string { return fmt.Sprintf("%s/copy-%d", f.request.UID, i+1) }

// take places a copy on a node whose last answer admits it. It returns false if the node's ledger
// nevertheless does not promise the place.
func (f *fitter) take(s *seat) (Berthed, bool) {
	b := Berthed{Node: s.node.Name, Exact: true}
	p, d := f.copyOf(s), placement.Decision{}
	a := s.Promise(p, &d)
	if !a.OK() {
		return b, false
	}
	if s.Pins(p) {
		b.NUMANodes, b.Exact = a.Verdict.NUMA.String(), a.Exact
	}
	for i := range d.Containers {
		b.Containers = append(b.Containers, survey.ContainerOf(s.node.Machine(), &d.Containers[i]))
	}
	s.copies++
	return b, true
}

// count places copies on s until s has limit copies, or does not admit the next one. s is a
// duplicate, so the caller's seat stays empty.
func (f *fitter) count(s seat, limit int) NodeFit {
	out := NodeFit{Answer: s.answer}
	for a := s.answer; ; a = f.ask(&s) {
		if a.Answer != Admits {
			out.Next = a.Message
			return out
		}
		if out.Copies >= limit {
			return out
		}
		b, ok := f.take(&s)
		if !ok {
			out.Next = wire.WaitsForReport
			return out
		}
		if out.ByNUMA == nil {
			out.ByNUMA = map[string]int{}
		}
		out.ByNUMA[b.NUMANodes]++
		out.Copies++
	}
}

// next places a copy on the node that the scheduler would choose. It returns false if no node
// admits a copy.
func (f *fitter) next(seats []*seat) (Berthed, bool) {
	for {
		var best *seat
		for _, s := range seats {
			if s.answer.Answer == Admits && (best == nil || better(s.answer, best.answer) < 0) {
				best = s
			}
		}
		if best == nil {
			return Berthed{}, false
		}
		b, ok := f.take(best)
		if !ok {
			best.answer.Answer = Waits
			continue
		}
		best.answer = f.ask(best)
		return b, true
	}
}

// TyingVolumes names the volumes of a pod that may tie it to certain nodes.
func TyingVolumes(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil {
			names = append(names, v.Name)
		}
	}
	return names
}

// notAsked describes what Fit does not check although it may exclude nodes for the pod, or prevent
// its start.
func notAsked(pod *corev1.Pod) (out []string) {
	spec, volumes := &pod.Spec, TyingVolumes(pod)
	a := spec.Affinity
	for _, one := range []struct {
		asked bool
		what  string
	}{
		{len(volumes) > 0, "volumes that may tie the pod to certain nodes (" + strings.Join(volumes, ", ") + ")"},
		{a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil), "affinity to other pods"},
		{len(spec.TopologySpreadConstraints) > 0, "spreading (topologySpreadConstraints)"},
		{len(spec.ResourceClaims) > 0, "devices of resource claims for more than one copy"},
		{spec.NodeName != "", "spec.nodeName: no scheduler checks such a pod"},
		{len(spec.SchedulingGates) > 0, "scheduling gates: no scheduler looks at the pod before they are removed"},
		{pod.Annotations[wire.ReservationAffinityAnnotation] != "", wire.ReservationAffinityAnnotation + ": the pod is placed only where a Reservation holds a place for it"},
		{true, "preemption, quotas, admission webhooks, the affinity of other pods, and images"},
	} {
		if one.asked {
			out = append(out, one.what)
		}
	}
	return out
}
