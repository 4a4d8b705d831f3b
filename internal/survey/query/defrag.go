package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/internal/defrag"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/moving"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Room is a plan that makes room for pods by moving other pods.
type Room struct {
	// Outcome is the outcome of the search: "found", "no room" or "gave up" (defrag.Ending).
	Outcome string `json:"outcome"`
	// Gang is the gang of the wanted pods, or "" if they were not requested as a gang.
	Gang string `json:"gang,omitempty"`
	// Wanted lists the pods that need room, with the places found for them.
	Wanted []RoomFor `json:"wanted"`
	// Moves are in the order in which they are carried out.
	Moves []RoomMove `json:"moves"`
	// Staying counts the pods that must not be moved, by reason.
	Staying map[string]int `json:"staying,omitempty"`
	// Movable counts the pods that may be moved. Ending counts pods that are ending, and therefore
	// make room without being moved.
	Movable int `json:"movable"`
	Ending  int `json:"ending,omitempty"`
	// Asked is the number of questions that the search asked the nodes' ledgers.
	Asked int      `json:"asked"`
	Notes []string `json:"notes,omitempty"`
	// Before and After show the nodes that the plan changes, if RoomOptions.Draw is set.
	Before []Picture `json:"-"`
	After  []Picture `json:"-"`
}

// RoomFor is a pod that needs room.
type RoomFor struct {
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	UID       string   `json:"uid,omitempty"`
	Asks      []string `json:"asks"`
	// Node is "" if the plan has no place for the pod.
	Node      string `json:"node,omitempty"`
	NUMANodes string `json:"numaNodes,omitempty"`
}

// RoomMove is one step of the plan: the eviction of a pod, and its new place.
type RoomMove struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Controller is the controller that creates the replacement pod, as KIND NAME.
	Controller string `json:"controller"`
	From       string `json:"from"`
	FromNUMA   string `json:"fromNUMANodes,omitempty"`
	To         string `json:"to"`
	// ToNUMA is "" if nothing is pinned, or if the NUMA nodes are not certain. For example, they
	// may depend on whether the holder of the place (package moving) leaves before the moved pod
	// arrives.
	ToNUMA string `json:"toNUMANodes,omitempty"`
}

// RoomOptions are the options of a plan.
type RoomOptions struct {
	// MostMoves is the maximum number of pods that move for one wanted pod; 0 means
	// defrag.DefaultMoves.
	MostMoves int
	// Draw requests Before and After.
	Draw bool
}

// maxRoomFor is the maximum number of pods in one plan that need room.
const maxRoomFor = 32

// MakeRoom plans room for pods that do not exist.
func MakeRoom(ctx context.Context, b Base, wanted []Wanted, o RoomOptions) (*Room, error) {
	s, err := b.Survey(ctx, "")
	if err != nil {
		return nil, err
	}
	return makeRoom(ctx, b.Cluster(), s, wanted, o)
}

// MakeRoomFor plans room for a waiting pod. If the pod belongs to a gang, it plans room for all
// waiting members that the gang needs in order to start.
func MakeRoomFor(ctx context.Context, b Base, namespace, name string, o RoomOptions) (*Room, error) {
	pod, err := b.PodNamed(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName != "" {
		return nil, fmt.Errorf("pod %s/%s: it is on node %s: want a pod that waits for a node", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	if why := moving.Unplaceable(pod); why != "" {
		return nil, fmt.Errorf("pod %s/%s: %s: want a pod that waits for a node", pod.Namespace, pod.Name, why)
	}
	if wire.InGang(pod) {
		return makeRoomForMember(ctx, b, pod, o)
	}
	return MakeRoom(ctx, b, []Wanted{{Pod: pod, Replicas: 1}}, o)
}

// maker builds the defrag.Problem from a survey.
type maker struct {
	*mover
	survey  *survey.Survey
	names   []string
	problem defrag.Problem
	// pods are the Pod objects of problem.Pods. `wanted` are the Pod objects of problem.Wanted, one
	// for each replica.
	pods, wanted []*corev1.Pod
	questions    map[*defrag.Pod]*question
	allowed      map[*defrag.Pod][]answered
	out          *Room
	// terms are the scheduler's arguments that apply to every pod.
	terms *wire.Terms
}

type answered uint8

const (
	notAskedYet answered = iota
	allowed
	forbidden
)

func makeRoom(ctx context.Context, c *survey.Cluster, s *survey.Survey, wanted []Wanted, o RoomOptions) (*Room, error) {
	m := &maker{mover: &mover{now: s.Now}, survey: s, names: s.Names(), questions: map[*defrag.Pod]*question{}, allowed: map[*defrag.Pod][]answered{}, terms: &c.Terms}
	m.out = &Room{Staying: map[string]int{}, Moves: []RoomMove{}, Wanted: []RoomFor{}, Notes: s.Notes}
	if err := m.want(ctx, c, wanted); err != nil {
		return nil, err
	}
	all, err := c.From.Budgets(ctx)
	if err != nil {
		m.out.Notes = append(m.out.Notes, fmt.Sprintf("PodDisruptionBudgets could not be read, so the API server may refuse an eviction: %v", err))
	}
	m.budgets = readBudgets(all)
	for _, b := range m.budgets {
		m.problem.Budgets = append(m.problem.Budgets, b.allowed)
	}
	m.gather()
	m.problem.May, m.problem.MostMoves = m.may, o.MostMoves
	plan := defrag.Find(ctx, &m.problem)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.tell(&plan, o.Draw)
	return m.out, nil
}

func (m *maker) want(ctx context.Context, c *survey.Cluster, wanted []Wanted) error {
	replicas := 0
	for i := range wanted {
		replicas += wanted[i].Replicas
	}
	if replicas > maxRoomFor {
		return fmt.Errorf("room for %d pods: want at most %d pods at a time", replicas, maxRoomFor)
	}
	for i := range wanted {
		pod := inNamespace(c, wanted[i].Pod)
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
		priority, note := priorityOf(ctx, c, pod)
		if note != "" {
			m.out.Notes = append(m.out.Notes, note)
		}
		if i == 0 || priority < m.priority { // pods above the lowest wanted priority must not move
			m.priority = priority
		}
		m.schedulers = append(m.schedulers, nameOfScheduler(pod))
		for r := range wanted[i].Replicas {
			m.wanted = append(m.wanted, pod)
			m.problem.Wanted = append(m.problem.Wanted, defrag.Pod{})
			p := &m.problem.Wanted[len(m.problem.Wanted)-1]
			if err := m.fill(p, pod, fmt.Sprintf("%s/wanted-%d", pod.UID, r+1), 2); err != nil {
				return err
			}
			name := pod.Name
			if wanted[i].Replicas > 1 {
				name = fmt.Sprintf("%s, copy %d", pod.Name, r+1)
			}
			m.out.Wanted = append(m.out.Wanted, RoomFor{Namespace: pod.Namespace, Name: name, UID: string(pod.UID), Asks: asksOf(pod)})
		}
	}
	m.index(m.problem.Wanted, m.wanted)
	return nil
}

// fill sets p's requests to those of the pod. If a kubelet could pin the pod, it sets a candidate
// with the given UID, whose creation time is the time of the survey plus the number of seconds in
// the argument `after`.
func (m *maker) fill(p *defrag.Pod, pod *corev1.Pod, uid string, after int64) error {
	ask, err := m.terms.ReadPod(pod)
	if err = cmp.Or(err, ask.RulesErr); err != nil {
		return err
	}
	p.Asks, p.Ports = wire.ReadAmounts(pod), wire.PortsOf(pod)
	if ask.Request.Pinnable() {
		again := ask.Request
		again.UID = uid
		p.Candidate = &ledger.Candidate{Request: &again, Created: m.survey.Now.Unix() + after}
	}
	return nil
}

// index stores the question about each pod under the address of the pod's element in list.
// Therefore list must not grow afterwards.
func (m *maker) index(list []defrag.Pod, pods []*corev1.Pod) {
	for i := range list {
		q := &question{pod: pods[i], amounts: list[i].Asks, request: new(placement.Request)}
		if c := list[i].Candidate; c != nil {
			q.request = c.Request
		}
		m.questions[&list[i]] = q
	}
}

// gather adds the nodes and the movable pods to the problem, and counts the other pods.
func (m *maker) gather() {
	for i, name := range m.names {
		n := m.survey.States[name]
		account := n.Account
		if n.Trouble != nil {
			account = nil
		}
		m.problem.Nodes = append(m.problem.Nodes, suppose.On(account, nodestate.RoomOf(n.Object, n.Bound, nil)))
		for _, pod := range n.Bound {
			if wire.Ended(pod) {
				continue
			}
			if pod.DeletionTimestamp != nil {
				m.out.Ending++
				continue
			}
			if why := m.stays(pod, n); why != "" {
				m.out.Staying[why]++
				continue
			}
			p := defrag.Pod{Pod: suppose.Pod{UID: string(pod.UID)}, Node: i, Budgets: ofPod(m.budgets, pod)}
			if err := m.fill(&p, pod, string(pod.UID)+"/again", 1); err != nil {
				m.out.Staying["it cannot be read"]++
				continue
			}
			again := pod.DeepCopy()
			again.Spec.NodeName, again.Status = "", corev1.PodStatus{}
			m.problem.Pods, m.pods = append(m.problem.Pods, p), append(m.pods, again)
		}
	}
	m.out.Movable = len(m.pods)
	m.index(m.problem.Pods, m.pods)
}

// may reports whether a pod may run on a node. It does not check free resources.
func (m *maker) may(p *defrag.Pod, node int) bool {
	known := m.allowed[p]
	if known == nil {
		known = make([]answered, len(m.names))
		m.allowed[p] = known
	}
	if known[node] == notAskedYet {
		known[node] = forbidden
		if m.admits(m.questions[p], m.survey.States[m.names[node]]) {
			known[node] = allowed
		}
	}
	return known[node] == allowed
}

func (m *maker) admits(q *question, n *survey.NodeState) bool {
	return n.Object != nil && excluded(q.pod, n.Object, nodeaffinity.GetRequiredNodeAffinity(q.pod)).why == "" && q.unmet(n) == "" &&
		lacking(q.amounts, nil, n.Object) == ""
}

func (m *maker) tell(plan *defrag.Plan, draw bool) {
	m.out.Outcome, m.out.Asked = plan.Outcome.String(), plan.Asked
	if plan.Outcome != defrag.Found {
		return
	}
	after := map[string]*played{}
	at := func(node int) *played {
		name := m.names[node]
		if after[name] == nil {
			n := m.survey.States[name]
			after[name] = &played{Node: suppose.On(n.Account, nil), node: n}
		}
		return after[name]
	}
	for _, move := range plan.Moves {
		p, pod := &m.problem.Pods[move.Pod], m.pods[move.Pod]
		n := m.survey.States[m.names[p.Node]]
		owner := metav1.GetControllerOf(pod)
		one := RoomMove{Namespace: pod.Namespace, Name: pod.Name, UID: p.UID, Controller: owner.Kind + " " + owner.Name, From: n.Name, To: m.names[move.To]}
		one.FromNUMA = n.NUMANodes(p.UID).String()
		surely := at(move.To).besideHolder(&p.Pod)
		if one.ToNUMA = at(move.To).comes(&p.Pod, pod.Namespace+"/"+pod.Name, movesHere+n.Name); surely != "" && surely != one.ToNUMA {
			one.ToNUMA = ""
		}
		at(p.Node).leaves(&p.Pod)
		m.out.Moves = append(m.out.Moves, one)
	}
	for i, node := range plan.Nodes {
		w := &m.out.Wanted[i]
		w.Node, w.NUMANodes = m.names[node], at(node).comes(&m.problem.Wanted[i].Pod, w.Name, WouldCome)
	}
	if !draw {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		p := after[name]
		was, err := pictureOf(m.survey, p.node, nil)
		if err != nil {
			continue
		}
		is, err := pictureOf(m.survey, supposed(p.node, &p.Node), p.coming)
		if err != nil {
			continue
		}
		m.out.Before, m.out.After = append(m.out.Before, was), append(m.out.After, is)
	}
}

// played is a node to which the moves of a plan are applied one after another.
type played struct {
	suppose.Node
	node   *survey.NodeState
	coming []machineview.Tenant
}

func (p *played) leaves(pod *suppose.Pod) {
	p.Take(pod)
	settle(&p.Node)
}

// settle makes all supposed changes of the node final (suppose.Node.Cleared), if the result is
// certain.
func settle(n *suppose.Node) {
	if then, certain := n.Cleared(); certain {
		*n = then
	}
}

// admit adds a pod to the node. It returns the pod's NUMA nodes, or "" if it is not certain that
// the node admits the pod.
func admit(n *suppose.Node, pod *suppose.Pod) string {
	var d placement.Decision
	a := n.Promise(pod, &d)
	if !a.OK() {
		return ""
	}
	settle(n)
	return a.Verdict.NUMA.String()
}

// comes adds an arriving pod to the node. It returns the pod's NUMA nodes. It returns "" if nothing
// is pinned, or if it is not certain that the node admits the pod.
func (p *played) comes(pod *suppose.Pod, name, note string) string {
	if !p.Pins(pod) {
		return ""
	}
	p.coming = append(p.coming, machineview.Tenant{UID: pod.Candidate.Request.UID, Name: name, Note: note})
	return admit(&p.Node, pod)
}

// besideHolder returns the NUMA nodes that the pod would get while its holder (package moving), a
// pod with the same requests, is still on the node. It returns "" if nothing is pinned, or if the
// pod has to wait until the holder has left. It does not change the node.
func (p *played) besideHolder(pod *suppose.Pod) string {
	if !p.Pins(pod) {
		return ""
	}
	with, holder, request := p.Clone(), *pod.Candidate, *pod.Candidate.Request
	request.UID = "holder/" + request.UID
	holder.Request = &request
	admit(&with, &suppose.Pod{Candidate: &holder})
	return admit(&with, pod)
}

func asksOf(pod *corev1.Pod) []string {
	ask, err := wire.ReadPod(pod)
	if err != nil {
		return nil
	}
	return survey.AsksText(&ask.Request)
}
