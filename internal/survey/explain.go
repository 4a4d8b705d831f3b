package survey

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Explained is why a pod is where it is, or nowhere.
type Explained struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
	Phase     string `json:"phase"`
	Scheduler string `json:"scheduler"`
	Node      string `json:"node,omitempty"`
	// Message is the scheduler's on a pending pod, the kubelet's on one that failed.
	Message string `json:"message,omitempty"`
	// Asks says per container what could be pinned; Pinnable whether any kubelet would.
	Asks     []string `json:"asks"`
	Pinnable bool     `json:"pinnable"`

	// Of a pod that is bound.
	Promise *Promise `json:"promise,omitempty"`
	// PromiseError says what is wrong with the annotation that should hold the promise.
	PromiseError string   `json:"promiseError,omitempty"`
	Holds        *Holding `json:"holds,omitempty"`
	// Outcome says how promise and report compare.
	Outcome string   `json:"outcome,omitempty"`
	Trouble *Trouble `json:"trouble,omitempty"`

	// Of a pod that is pending.
	Groups []Group  `json:"groups,omitempty"`
	Nodes  []Answer `json:"nodes,omitempty"`

	Notes []string `json:"notes,omitempty"`
}

// What a node says to a pending pod.
const (
	Admits     = "admits"
	Waits      = "waits"
	Refuses    = "refuses"
	Unreliable = "unreliable" // its word cannot be taken
	Excluded   = "excluded"   // the pod or the node rules the other out, whatever is free
)

// answerOrder is that of the output.
var answerOrder = []string{Admits, Waits, Refuses, Unreliable, Excluded}

// Answer is what one node says to a pending pod.
type Answer struct {
	Node    string `json:"node"`
	Answer  string `json:"answer"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	Report  int64  `json:"report,omitempty"`
	// InFlight counts pods that are bound to the node and in no report yet.
	InFlight int `json:"inFlight,omitempty"`
	// SilentSeconds is how long the agent of a node has been silent that is not relied on therefore.
	SilentSeconds int64 `json:"silentSeconds,omitempty"`

	NUMANodes string             `json:"numaNodes,omitempty"`
	Refusal   *placement.Refusal `json:"refusal,omitempty"`
}

// Group is nodes that say the same.
type Group struct {
	Answer  string   `json:"answer"`
	Message string   `json:"message"`
	Advice  string   `json:"advice,omitempty"`
	Nodes   []string `json:"nodes"`
	// Labels are Nodes with what is told of each, for people.
	Labels []string `json:"-"`
}

// Explain says why the named pod is where it is, or nowhere. With only, no other node is asked.
func (c *Cluster) Explain(ctx context.Context, name, only string) (*Explained, error) {
	pod, err := c.core.Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, c.noPod(name)
	}
	if err != nil {
		return nil, c.failed("pod "+c.Namespace+"/"+name, err)
	}
	ask, err := wire.ReadPod(pod)
	if err != nil {
		return nil, err
	}
	e := about(pod, &ask.Request)
	if e.Node != "" {
		return e, c.explainBound(ctx, e, pod)
	}
	q := pending{pod: pod, asked: &ask, amounts: amountsOf(pod)}
	return e, c.explainPending(ctx, e, &q, only)
}

func (c *Cluster) explainBound(ctx context.Context, e *Explained, pod *corev1.Pod) error {
	s, err := c.Survey(ctx, e.Node)
	if err != nil {
		return err
	}
	e.bound(pod, s)
	e.Notes = s.Notes
	return nil
}

func about(pod *corev1.Pod, r *placement.Request) *Explained {
	e := &Explained{
		Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), Phase: cmp.Or(string(pod.Status.Phase), "Pending"),
		Scheduler: cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName), Node: pod.Spec.NodeName,
		Asks: asksText(r), Pinnable: r.Pinnable(),
	}
	switch pod.Status.Phase {
	case corev1.PodFailed:
		e.Message = strings.TrimPrefix(pod.Status.Reason+": "+pod.Status.Message, ": ")
	case corev1.PodPending, "":
		for _, cond := range pod.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
				e.Message = cond.Message
			}
		}
	}
	return e
}

// bound fills in what was promised to a pod, and what its node says it has.
func (e *Explained) bound(pod *corev1.Pod, s *Survey) {
	n := s.nodes[pod.Spec.NodeName]
	p, found, err := wire.ReadPlacement(pod)
	if err != nil {
		e.PromiseError, found = err.Error(), false
	}
	if found {
		e.Promise = n.promise(&p)
	}
	e.Holds = n.holding(e.UID, s.Now)
	e.Outcome = n.outcome(&p, found)
	e.Trouble = s.missing(e.Node)
	if n != nil {
		e.Trouble = n.trouble
	}
}

// pending is a pod without a node, as nodes are asked about it.
type pending struct {
	pod     *corev1.Pod
	asked   *wire.Ask
	amounts amounts
	// classes are the resources that device classes stand for.
	classes map[corev1.ResourceName]bool
}

func (c *Cluster) explainPending(ctx context.Context, e *Explained, q *pending, only string) error {
	s, err := c.Survey(ctx, only)
	if err != nil {
		return err
	}
	if q.classes, err = s.classes(ctx, c, q.amounts); err != nil {
		return err
	}
	if only != "" && len(s.nodes) == 0 {
		return c.noNode(s, only)
	}
	if e.Pinnable {
		e.Nodes = q.ask(s)
		e.Groups = groupsOf(e.Nodes)
	}
	e.Notes = s.Notes
	return nil
}

// ask asks every node.
func (q *pending) ask(s *Survey) []Answer {
	affinity := nodeaffinity.GetRequiredNodeAffinity(q.pod)
	candidate := ledger.Candidate{Request: &q.asked.Request, Created: q.pod.CreationTimestamp.Unix()}
	names := s.Names()
	answers := make([]Answer, len(names))
	inParallel(len(names), func(i int) {
		n, a := s.nodes[names[i]], &answers[i]
		asked := q.amounts.beside(q.classes, n.object)
		a.Node, a.Report, a.InFlight = n.name, n.sequence(), n.inFlight
		if n.trouble != nil && n.trouble.Reason == nodestate.Silent && !n.heard.IsZero() {
			a.SilentSeconds = Seconds(s.Now.Sub(n.heard))
		}
		if why := cmp.Or(excluded(q.pod, n.object, affinity), asked.lacking(n.object), q.unmet(n)); why != "" {
			a.Answer, a.Message = Excluded, why
			return
		}
		n.answer(&candidate, a)
		if a.Answer != Admits {
			return
		}
		if why := asked.short(n.object, s.bound[n.name]); why != "" {
			a.Answer, a.Message = Refuses, why
		}
	})
	slices.SortStableFunc(answers, func(a, b Answer) int {
		return slices.Index(answerOrder, a.Answer) - slices.Index(answerOrder, b.Answer)
	})
	return answers
}

// unmet says why a node cannot keep the rules that the pod asks for; "" when it can. Of a kubelet that Berth cannot
// predict the rules are not known either: its answer says what is wrong.
func (q *pending) unmet(n *node) string {
	switch {
	case q.asked.RulesErr != nil:
		return "the scheduler cannot read the pod: " + q.asked.RulesErr.Error()
	case n.reading == nil || n.reading.Kind == nil || n.reading.Kind.Model == nil:
		return ""
	}
	return wire.Unmet(n.reading.Kind.Model, q.asked.Request.Rules)
}
