package survey

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// hasSay reports whether Berth's scheduler plugin decides about the pod on the node. It decides if
// a kubelet might pin something for the pod. It decides about other pods only on nodes with
// authority berth, or if the pod's rules count NUMA nodes. On an unreliable node, these other pods
// must have rules. It does not decide about these other pods if they are members of gangs, or if
// the node is nil.
func (n *node) hasSay(pod *corev1.Pod, r *placement.Request) bool {
	switch {
	case r.Pinnable():
		return true
	case n == nil || grouped(pod):
		return false
	case !n.decides() && !r.Rules.CountsNUMANodes():
		return false
	}
	return n.trouble == nil || r.Rules.Own() != placement.Rules{}
}

// grouped reports whether the pod belongs to a gang or to a Kubernetes PodGroup.
func grouped(pod *corev1.Pod) bool { return wire.InGang(pod) || pod.Spec.SchedulingGroup != nil }

// hasSay reports whether Berth decides about the pod on the node. It always decides about a pod
// with unreadable rules, or with a request for a provider's resource.
func (q *question) hasSay(n *node) bool {
	return q.rulesErr != nil || len(q.provided) > 0 || n.hasSay(q.pod, q.request)
}

// decided reports whether Berth decides about the pod on any of the nodes.
func (q *question) decided(s *Survey, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return q.hasSay(s.nodes[name]) })
}

// rulesErr returns the error if the rules of a pod cannot be read. It returns nil if the scheduler
// ignores the rules, because no kubelet pins anything for the pod and Berth decides about the pod
// on no node.
func (s *Survey) rulesErr(pod *corev1.Pod, ask *wire.Ask) error {
	r := &ask.Request
	switch {
	case ask.RulesErr == nil || r.Pinnable() || !grouped(pod) && r.Rules.CountsNUMANodes():
		return ask.RulesErr
	case grouped(pod):
		return nil
	}
	for _, n := range s.nodes {
		if n.decides() {
			return ask.RulesErr
		}
	}
	return nil
}

// advise adds advice about a node that refuses the pod. The advice also considers amounts.
func (q *question) advise(n *node, room func() *amounts.Node, a *Answer) {
	if a.Refusal == nil {
		return
	}
	refusal, ok := n.account.View().Advise(q.request, q.roomy(n, room()))
	if !ok || refusal.Reason == placement.Admitted {
		return
	}
	n.nameHolders(&refusal)
	a.Refusal, a.Advice = &refusal, refusal.Advice()
}

// roomy returns a function that reports whether the node has the amounts for a changed request of
// the pod.
func (q *question) roomy(n *node, room *amounts.Node) placement.Fits {
	return func(r *placement.Request, empty bool) bool {
		asks := Instead(q.amounts, q.request, r)
		return lacking(asks, q.classes, n.object) == "" && (empty || room.Short(asks) == nil)
	}
}

// answer asks a node on which Berth decides about the pod. If no kubelet pins anything for the pod,
// answer removes the Choice, because other plugins choose among the nodes.
func (q *question) answer(n *node, c *ledger.Candidate, a *Answer) {
	n.answer(c, q.demand[n.name], a)
	if !q.request.Pinnable() && len(q.provided) == 0 {
		a.Choice = nil
	}
}
