package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// errNoNode is the answer no of explain; the output has said why.
var errNoNode = errors.New("no node takes the pod")

// liveQuestion is explain about a pod of a cluster.
type liveQuestion struct {
	live liveFlags
	// limit is how many nodes are explained in full; only names one.
	limit int
	only  string
}

// explained is everything that explain says of a pod.
type explained struct {
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
	Promise *promised `json:"promise,omitempty"`
	// PromiseError says what is wrong with the annotation that should hold the promise.
	PromiseError string   `json:"promiseError,omitempty"`
	Holds        *holding `json:"holds,omitempty"`
	// Outcome says how promise and report compare.
	Outcome string   `json:"outcome,omitempty"`
	Trouble *trouble `json:"trouble,omitempty"`

	// Of a pod that is pending.
	Groups []nodeGroup  `json:"groups,omitempty"`
	Nodes  []nodeAnswer `json:"nodes,omitempty"`

	Notes []string `json:"notes,omitempty"`
}

// What a node says to a pending pod.
const (
	answerAdmits   = "admits"
	answerWaits    = "waits"
	answerRefuses  = "refuses"
	answerUntaken  = "unreliable" // its word cannot be taken
	answerExcluded = "excluded"   // the pod or the node rules the other out, whatever is free
)

// answerOrder is that of the output.
var answerOrder = []string{answerAdmits, answerWaits, answerRefuses, answerUntaken, answerExcluded}

// nodeAnswer is what one node says to a pending pod.
type nodeAnswer struct {
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

// nodeGroup is nodes that say the same.
type nodeGroup struct {
	Answer  string   `json:"answer"`
	Message string   `json:"message"`
	Advice  string   `json:"advice,omitempty"`
	Nodes   []string `json:"nodes"`
	// labels are Nodes with what is told of each.
	labels []string
}

func (q *liveQuestion) run(cmd *cobra.Command, name string, o output) error {
	if err := o.check(); err != nil {
		return err
	}
	if q.limit < 0 {
		return Usagef("--nodes %d: want 0 or more", q.limit)
	}
	c, err := q.live.connect()
	if err != nil {
		return err
	}
	e, err := q.ask(cmd.Context(), c, name)
	if err != nil {
		return err
	}
	writeNotes(cmd, e.Notes)
	if err := printLive(cmd, o, e, func(w io.Writer) error { return e.write(w, q.limit) }); err != nil {
		return err
	}
	if e.Node == "" && e.Pinnable && !slices.ContainsFunc(e.Nodes, func(a nodeAnswer) bool { return a.Answer == answerAdmits }) {
		return errNoNode
	}
	return nil
}

func (q *liveQuestion) ask(ctx context.Context, c *cluster, name string) (*explained, error) {
	pod, err := c.core.Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("no pod %s in namespace %s at %s", name, c.namespace, c.where)
	}
	if err != nil {
		return nil, c.failed("pod "+c.namespace+"/"+name, err)
	}
	request, err := wire.Request(pod)
	if err != nil {
		return nil, err
	}
	only := q.only
	if pod.Spec.NodeName != "" {
		only = pod.Spec.NodeName
	}
	s, err := c.survey(ctx, only)
	if err != nil {
		return nil, err
	}
	e := about(pod, &request)
	if pod.Spec.NodeName != "" {
		e.bound(pod, s)
	} else {
		asked := amountsOf(pod)
		classes, err := s.classes(ctx, c, asked)
		if err != nil {
			return nil, err
		}
		e.pending(pod, &request, s, func(n *corev1.Node) amounts { return asked.but(classes, n) })
	}
	if q.only != "" && pod.Spec.NodeName == "" && len(s.nodes) == 0 {
		return nil, fmt.Errorf("%s at %s", s.missing(q.only).Message, c.where)
	}
	e.Notes = s.notes
	return e, nil
}

func about(pod *corev1.Pod, r *placement.Request) *explained {
	e := &explained{
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
func (e *explained) bound(pod *corev1.Pod, s *survey) {
	n := s.nodes[pod.Spec.NodeName]
	p, found, err := wire.PlacementOf(pod)
	if err != nil {
		e.PromiseError, found = err.Error(), false
	}
	if found {
		e.Promise = n.promise(&p)
	}
	e.Holds = n.holding(e.UID, s)
	e.Outcome = n.compare(&p, found)
	e.Trouble = s.missing(e.Node)
	if n != nil {
		e.Trouble = n.trouble
	}
}

// pending asks every node; askedOf is what it must have enough of.
func (e *explained) pending(pod *corev1.Pod, r *placement.Request, s *survey, askedOf func(*corev1.Node) amounts) {
	if !e.Pinnable {
		return
	}
	unmet := policyOf(pod)
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	candidate := ledger.Candidate{Request: r, Created: pod.CreationTimestamp.Unix()}
	names := s.names()
	e.Nodes = make([]nodeAnswer, len(names))
	inParallel(len(names), func(i int) {
		n, a := s.nodes[names[i]], &e.Nodes[i]
		asked := askedOf(n.object)
		a.Node, a.Report, a.InFlight = n.name, n.sequence(), n.inFlight
		if n.trouble != nil && n.trouble.Reason == troubleSilent && !n.heard.IsZero() {
			a.SilentSeconds = seconds(s.now.Sub(n.heard))
		}
		if why := cmp.Or(excluded(pod, n.object, affinity), asked.lacking(n.object), unmet(n)); why != "" {
			a.Answer, a.Message = answerExcluded, why
			return
		}
		n.answer(&candidate, a)
		if a.Answer != answerAdmits {
			return
		}
		if why := asked.short(n.object, s.bound[n.name]); why != "" {
			a.Answer, a.Message = answerRefuses, why
		}
	})
	slices.SortStableFunc(e.Nodes, func(a, b nodeAnswer) int {
		return slices.Index(answerOrder, a.Answer) - slices.Index(answerOrder, b.Answer)
	})
	e.Groups = groupsOf(e.Nodes)
}

// policyOf returns what says why a node cannot keep the policy that the pod asks for by an annotation.
func policyOf(pod *corev1.Pod) func(*liveNode) string {
	policy, _, err := wire.PolicyOf(pod)
	return func(n *liveNode) string {
		switch {
		case err != nil:
			return "the scheduler cannot read the pod: " + err.Error()
		case n.spec == nil:
			return ""
		}
		return policy.Unmet(&n.spec.Config)
	}
}

// answer asks the node.
func (n *liveNode) answer(c *ledger.Candidate, out *nodeAnswer) {
	if n.trouble != nil {
		out.Answer, out.Message, out.Advice = answerUntaken, n.trouble.Message, n.trouble.Advice
		return
	}
	a := n.account.Admit(c)
	switch a.Outcome {
	case ledger.Admitted:
		out.Answer, out.Message, out.NUMANodes = answerAdmits, "would take the pod", a.Verdict.NUMA.String()
		if !a.Exact {
			out.Message += ", but not with certain CPUs"
		}
	case ledger.Refused:
		out.Answer, out.Message = answerRefuses, a.Verdict.Reason.String()+": "+a.Verdict.Detail.Text()
		if refusal, ok := n.account.Explain(c.Request); ok {
			out.Refusal, out.Message = &refusal, refusal.String()
		}
	default:
		out.Answer, out.Message = answerWaits, wire.WaitsForReport+n.openText(a.Wait)
	}
}

// openText says what a report has still to tell, and why that matters.
func (n *liveNode) openText(why ledger.Wait) string {
	var parts []string
	if n.inFlight > 0 {
		parts = append(parts, counted(n.inFlight, "pod")+" bound since the last one")
	}
	if n.lingering > 0 {
		parts = append(parts, counted(n.lingering, "pod")+" ending or ended, and not listed")
	}
	text := strings.Join(parts, ", ")
	if text != "" {
		text += "; "
	}
	return ": " + text + why.Text()
}

// excluded says why node and pod do not go together whatever is free; "" where they do. The scheduler's other plugins have
// more reasons; its event names them.
func excluded(pod *corev1.Pod, node *corev1.Node, affinity nodeaffinity.RequiredNodeAffinity) string {
	if node == nil {
		return ""
	}
	if ok, err := affinity.Match(node); !ok || err != nil {
		return "the pod's node selector or affinity does not match"
	}
	if node.Spec.Unschedulable && !tolerates(pod, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return "the node is cordoned"
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, t) {
			return "the pod does not tolerate taint " + t.ToString()
		}
	}
	return ""
}

func tolerates(pod *corev1.Pod, t *corev1.Taint) bool {
	return corehelpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, t, true)
}

// label is the node's name, with how long its agent has been silent.
func (a *nodeAnswer) label() string {
	if a.SilentSeconds == 0 {
		return a.Node
	}
	return a.Node + " for " + ageText(a.SilentSeconds)
}

// groupsOf joins nodes that say the same, the most frequent first among equal answers.
func groupsOf(answers []nodeAnswer) []nodeGroup {
	var groups []nodeGroup
	for _, a := range answers {
		i := slices.IndexFunc(groups, func(g nodeGroup) bool { return g.Answer == a.Answer && g.Message == a.Message })
		if i < 0 {
			groups = append(groups, nodeGroup{Answer: a.Answer, Message: a.Message, Advice: a.Advice})
			i = len(groups) - 1
		}
		groups[i].Nodes = append(groups[i].Nodes, a.Node)
		groups[i].labels = append(groups[i].labels, a.label())
		if groups[i].Advice != a.Advice {
			groups[i].Advice = strings.ReplaceAll(a.Advice, a.Node, "NODE")
		}
	}
	slices.SortStableFunc(groups, func(a, b nodeGroup) int {
		return cmp.Or(slices.Index(answerOrder, a.Answer)-slices.Index(answerOrder, b.Answer), len(b.Nodes)-len(a.Nodes), cmp.Compare(a.Message, b.Message))
	})
	return groups
}
