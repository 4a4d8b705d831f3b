package survey

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// hasSay reports whether the node has a say about the pod, as the scheduler sees it. Any node has
// one if a kubelet might pin something for the pod. Any other pod passes if a kubelet decides,
// unless its rules count NUMA nodes; and if the node cannot be relied on, if it wants nothing of
// its own. Members of gangs pass everywhere. Nobody has a say on a node that is not known: nil.
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

// grouped reports whether the pod is placed together with others.
func grouped(pod *corev1.Pod) bool { return wire.InGang(pod) || pod.Spec.SchedulingGroup != nil }

// hasSay reports whether the node has a say about the pod. One whose rules cannot be read, or that
// asks for what a provider hands out, passes nowhere.
func (q *question) hasSay(n *node) bool {
	return q.rulesErr != nil || len(q.provided) > 0 || n.hasSay(q.pod, q.request)
}

// decided reports whether any of the nodes has a say about the pod.
func (q *question) decided(s *Survey, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return q.hasSay(s.nodes[name]) })
}

// rulesErr is why the rules of a pod cannot be read; nil if the scheduler does not look at them: no
// kubelet pins anything for the pod, and no node has a say about it, whatever its rules.
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

// advise returns what would help with a node that refuses, amounts and all.
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

// roomy says of other requests whether the node has the amounts for them.
func (q *question) roomy(n *node, room *amounts.Node) placement.Fits {
	return func(r *placement.Request, empty bool) bool {
		asks := Instead(q.amounts, q.request, r)
		return lacking(asks, q.classes, n.object) == "" && (empty || room.Short(asks) == nil)
	}
}

// answer asks a node that has a say about the pod. Among the nodes that take a pod for which no
// kubelet pins anything other plugins choose.
func (q *question) answer(n *node, c *ledger.Candidate, a *Answer) {
	n.answer(c, q.demand[n.name], a)
	if !q.request.Pinnable() && len(q.provided) == 0 {
		a.Choice = nil
	}
}
