package witness

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/internal/wire"
)

// elsewhere returns the node that Berth would have chosen for a pod that is rejected on its own
// node, split over NUMA nodes there, or strands devices there. This is the first node in Berth's
// order that admits the pod and that kube-scheduler could have chosen. elsewhere returns nil if the
// pod is well placed, or if no node is better. The result looked is false if the search was not
// possible.
func (w *Witness) elsewhere(pod *corev1.Pod, own *nodes.Node, e *ledger.Expectation) (better *shadow.Elsewhere, looked bool) {
	if len(e.Either) > 0 {
		return nil, false
	}
	admitted, numa := e.Answer.OK(), e.Answer.Verdict.NUMA.Len()
	if admitted && numa < 2 && e.Spare.Stranded == 0 {
		return nil, true
	}
	if !plain(pod) {
		return nil, false
	}
	ask, err := wire.ReadPod(pod)
	if err != nil || !w.spend() {
		return nil, false
	}
	begun := w.Clock.Now()
	defer func() { w.spent(w.Clock.Since(begun)) }()
	c := w.table.Candidate(pod, &ask.Request)
	n := w.best(pod, own, &c)
	if n == nil {
		return nil, true
	}
	a := n.Account().View().Ask(ledger.Question{Candidate: &c})
	if !a.OK() {
		return nil, true
	}
	offer := rank.OfferOf(n.Account(), c.Request, &a, n.Machine())
	out := &shadow.Elsewhere{Node: n.Name(), NUMANodes: a.Verdict.NUMA.String()}
	switch {
	case !admitted:
		out.Why = shadow.WhyRejected
	case a.Verdict.NUMA.Len() < numa:
		out.Why = shadow.WhySplit
	case a.Verdict.NUMA.Len() == numa && offer.Stranded < e.Spare.Stranded:
		out.Why, out.Devices = shadow.WhyStranded, e.Spare.Stranded-offer.Stranded
	default:
		return nil, true
	}
	return out, true
}

// maxTried is the maximum number of nodes that are checked with feasible.
const maxTried = 64

// best returns the first feasible node in Berth's order, other than the pod's own node, or nil.
func (w *Witness) best(pod *corev1.Pod, own *nodes.Node, c *ledger.Candidate) *nodes.Node {
	type choice struct {
		node  *nodes.Node
		order uint32
	}
	var choices []choice
	q := w.profile.Begin(*c, "")
	for n := range w.table.All {
		if n == own || w.table.Unusable(n) != nil {
			continue
		}
		answer, known := q.Recall(n)
		if !known {
			answer = q.Ask(n)
		}
		if answer.Admits() {
			choices = append(choices, choice{n, q.OrderOf(n, answer)})
		}
	}
	slices.SortFunc(choices, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.node.Name(), b.node.Name()))
	})
	for _, c := range choices[:min(len(choices), maxTried)] {
		if node := w.node(c.node.Name()); node != nil && w.feasible(pod, node) {
			return c.node
		}
	}
	return nil
}

// plain reports whether the pod has only requirements that feasible checks.
func plain(pod *corev1.Pod) bool {
	if a := pod.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return false
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return false
		}
	}
	for _, c := range wire.Containers(pod) {
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }) {
			return false
		}
	}
	return len(pod.Spec.TopologySpreadConstraints) == 0 && len(pod.Spec.ResourceClaims) == 0
}

// feasible reports whether kube-scheduler could have put a plain pod on the node.
func (w *Witness) feasible(pod *corev1.Pod, node *corev1.Node) bool {
	if match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !match || node.Spec.Unschedulable {
		return false
	}
	keepsOff := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	if _, untolerated := corev1helpers.FindMatchingUntoleratedTaint(w.Logger, node.Spec.Taints, pod.Spec.Tolerations, keepsOff, false); untolerated {
		return false
	}
	others := slices.DeleteFunc(w.pods.on(node.Name), func(other *corev1.Pod) bool { return other.UID == pod.UID })
	asks := wire.ReadAmounts(pod)
	asks[string(corev1.ResourcePods)] = 1
	return nodestate.RoomOf(node, others, nil).Has(asks)
}

// budget is the time that searches may use. It grows by share times the elapsed time, up to
// maxLeft.
type budget struct {
	share float64
	left  time.Duration
	at    time.Time
}

const maxLeft = time.Second

// spend reports whether the budget allows another search.
func (w *Witness) spend() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, now := &w.budget, w.Clock.Now()
	if b.at.IsZero() {
		b.left = maxLeft
	} else {
		b.left = min(maxLeft, b.left+time.Duration(b.share*float64(now.Sub(b.at))))
	}
	b.at = now
	return b.left > 0
}

func (w *Witness) spent(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.budget.left -= d
}
