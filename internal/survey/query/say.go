package query

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// hasSay reports whether Berth's scheduler plugin decides about the pod on the node. It decides
// about every pod for which a kubelet might pin something. For any other pod:
//   - If the pod is a member of a gang or of a Kubernetes PodGroup, or if the node is nil, it does
//     not decide.
//   - If the pod's rules count NUMA nodes, it decides.
//   - Without such rules, it decides only on nodes with authority berth. If the report of such a
//     node is unreliable, it decides only about pods with rules of their own.
func hasSay(n *survey.NodeState, pod *corev1.Pod, r *placement.Request) bool {
	switch {
	case r.Pinnable():
		return true
	case n == nil || grouped(pod):
		return false
	case !n.Decides() && !r.Rules.CountsNUMANodes():
		return false
	}
	return n.Trouble == nil || r.Rules.Own() != placement.Rules{}
}

// grouped reports whether the pod belongs to a gang or to a Kubernetes PodGroup.
func grouped(pod *corev1.Pod) bool { return wire.InGang(pod) || pod.Spec.SchedulingGroup != nil }

// hasSay reports whether Berth decides about the pod on the node. It always decides about a pod
// with unreadable rules, or with a request for a provider's resource.
func (q *question) hasSay(n *survey.NodeState) bool {
	return q.rulesErr != nil || len(q.provided) > 0 || hasSay(n, q.pod, q.request)
}

func (q *question) decided(s *survey.Survey, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return q.hasSay(s.States[name]) })
}

// rulesErrOf returns the error if the rules of a pod cannot be read. It returns nil if the
// scheduler ignores the rules, because no kubelet pins anything for the pod and Berth decides about
// the pod on no node.
func rulesErrOf(s *survey.Survey, pod *corev1.Pod, ask *wire.Ask) error {
	r := &ask.Request
	switch {
	case ask.RulesErr == nil || r.Pinnable() || !grouped(pod) && r.Rules.CountsNUMANodes():
		return ask.RulesErr
	case grouped(pod):
		return nil
	}
	for _, n := range s.States {
		if n.Decides() {
			return ask.RulesErr
		}
	}
	return nil
}

// advise replaces the answer's refusal and advice with a refusal and advice that also consider the
// node's free amounts.
func (q *question) advise(n *survey.NodeState, room func() *amounts.Node, a *Answer) {
	if a.Refusal == nil {
		return
	}
	refusal, ok := n.Account.View().Advise(q.request, q.roomy(n, room()))
	if !ok || refusal.Reason == placement.Admitted {
		return
	}
	nameHolders(n, &refusal)
	a.Refusal, a.Advice = &refusal, refusal.Advice()
}

// roomy returns a function that reports whether the node has enough amounts for a changed request
// of the pod. `room` has the node's free amounts.
func (q *question) roomy(n *survey.NodeState, room *amounts.Node) placement.Fits {
	return func(r *placement.Request, empty bool) bool {
		asks := Instead(q.amounts, q.request, r)
		return lacking(asks, q.classes, n.Object) == "" && (empty || room.Short(asks) == nil)
	}
}

// answer asks a node on which Berth decides about the pod. If no kubelet pins anything for the pod,
// the answer has no Choice, because other plugins choose among the nodes.
func (q *question) answer(n *survey.NodeState, c *ledger.Candidate, a *Answer) {
	answerOf(n, c, q.demand[n.Name], a)
	if !q.request.Pinnable() && len(q.provided) == 0 {
		a.Choice = nil
	}
}

// givesWhole reports whether the kubelet gives exclusive CPUs to the pod as a whole, because of
// spec.resources.
func givesWhole(n *survey.NodeState, r *placement.Request) bool {
	return n.Reading != nil && n.Reading.Kind != nil && n.Reading.Kind.Model != nil && n.Reading.Kind.Model.GivesWhole(r)
}

// withoutProvided removes the providers' resources from a request, and returns their names. It
// knows only the provided resources in the Bindings of pods, because no other data shows which
// providers a scheduler has.
func withoutProvided(s *survey.Survey, r *placement.Request) (rest *placement.Request, provided []string) {
	known := map[string]bool{}
	for _, n := range s.States {
		for i := range n.Given {
			known[n.Given[i].Resource] = true
		}
	}
	names := map[string]bool{}
	one := *r
	one.Containers = slices.Clone(r.Containers)
	for i := range one.Containers {
		c := &one.Containers[i]
		c.Devices = slices.DeleteFunc(slices.Clone(c.Devices), func(d placement.DeviceRequest) bool {
			if known[d.Resource] && d.Count > 0 {
				names[d.Resource] = true
			}
			return known[d.Resource]
		})
	}
	if len(names) == 0 {
		return r, nil
	}
	return &one, slices.Sorted(maps.Keys(names))
}

// besideProvided completes the answer about a pod that requests resources of providers. A node
// without authority berth refuses the pod. Otherwise besideProvided adds the amounts in use.
func besideProvided(n *survey.NodeState, provided []string, a *Answer) {
	if len(provided) == 0 || n.Trouble != nil {
		return
	}
	names := strings.Join(provided, ", ")
	for _, g := range n.Given {
		if slices.Contains(provided, g.Resource) {
			a.Given = append(a.Given, g)
		}
	}
	switch {
	case !n.Decides():
		d := placement.ProviderElsewhere
		*a = Answer{Node: a.Node, Report: a.Report, InFlight: a.InFlight, Answer: Refuses, Message: names + ": " + d.Text(), Advice: d.Advice()}
	case a.Answer == Admits:
		a.Message += ", if the scheduler's provider has enough of " + names + " there"
	}
}
