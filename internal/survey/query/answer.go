package query

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// answerOf writes the node's answer about the candidate into out. `wanted` is the demand for the
// node's devices (package demand).
func answerOf(n *survey.NodeState, c *ledger.Candidate, wanted demand.Level, out *Answer) {
	if n.Trouble != nil {
		out.Answer, out.Message, out.Advice = Unreliable, n.Trouble.Message, n.Trouble.Advice
		return
	}
	a := n.Account.View().Ask(ledger.Question{Candidate: c})
	switch a.Outcome {
	case ledger.Admitted:
		out.Answer, out.Message, out.NUMANodes = Admits, "would take the pod", a.Verdict.NUMA.String()
		if out.NUMACount = a.Verdict.NUMA.Len(); out.NUMACount > 0 {
			out.Message += " on " + wire.Counted(out.NUMACount, "NUMA node")
		}
		out.Choice = choiceOf(n, c, wanted, &a)
		if !a.Exact {
			out.Message += ", but not with certain CPUs"
		}
	case ledger.Refused:
		refuse(n, c, &a, out)
	default:
		out.Answer, out.Message = Waits, wire.WaitsForReport+openText(n, a.Wait)
	}
}

func refuse(n *survey.NodeState, c *ledger.Candidate, a *ledger.Answer, out *Answer) {
	out.Answer, out.Message, out.Advice = Refuses, a.Verdict.Reason.String()+": "+a.Verdict.Detail.Text(), a.Verdict.Detail.AdviceFor(c.Request.Rules)
	if refusal, ok := n.Account.View().Explain(c.Request); ok {
		nameHolders(n, &refusal)
		out.Refusal, out.Message, out.Advice = &refusal, refusal.String(), refusal.Advice()
	}
}

// say replaces Berth's annotation keys in the answer's texts with the keys that the pod uses.
func (a *Answer) say(said wire.Said) {
	a.Message, a.Advice = said.In(a.Message), said.In(a.Advice)
	if a.Refusal != nil {
		a.Refusal.Rule = said.In(a.Refusal.Rule)
	}
}

// nameHolders replaces the UIDs of the pods that have devices in a refusal with the pods' names, if
// the report has these names.
func nameHolders(n *survey.NodeState, r *placement.Refusal) {
	report := n.Report()
	for i := range r.Devices {
		d := &r.Devices[i]
		if d.Holder == "" || report == nil {
			continue
		}
		at := slices.IndexFunc(report.Snapshot.Pods, func(p placement.PodAllocation) bool { return p.UID == d.Holder })
		if at >= 0 && at < len(report.Pods) && report.Pods[at].Name != "" {
			d.Holder = report.Pods[at].Namespace + "/" + report.Pods[at].Name
		}
	}
}

// openText explains why the answer depends on the next report, and counts the pods that no report
// lists yet.
func openText(n *survey.NodeState, why ledger.Wait) string {
	var parts []string
	if n.InFlight > 0 {
		parts = append(parts, wire.Counted(n.InFlight, "pod")+" bound since the last one")
	}
	if n.Lingering > 0 {
		parts = append(parts, wire.Counted(n.Lingering, "pod")+" ending or ended, and not listed")
	}
	text := strings.Join(parts, ", ")
	if text != "" {
		text += "; "
	}
	return ": " + text + why.Text()
}

// exclusion is a reason why a pod could not run on a node even if the node were empty, with advice.
type exclusion struct{ why, advice string }

// excluded returns the reason why the pod cannot run on the node, or the zero value. It checks node
// selectors, required node affinity, cordons and taints. kube-scheduler's plugins for other rules
// may also refuse the node; the scheduler's event names them.
func excluded(pod *corev1.Pod, node *corev1.Node, affinity nodeaffinity.RequiredNodeAffinity) exclusion {
	if node == nil {
		return exclusion{}
	}
	if ok, err := affinity.Match(node); !ok || err != nil {
		why := "the pod's node selector or affinity does not match"
		terms := termsOf(pod)
		if i := slices.IndexFunc(terms, func(t term) bool { return !t.matches(node) }); i >= 0 {
			why += ": " + terms[i].text
		}
		return exclusion{why,
			"if the pod may go there, change its nodeSelector or affinity, or the node's labels: kubectl get node " + node.Name + " --show-labels"}
	}
	if node.Spec.Unschedulable && !tolerates(pod, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return exclusion{"the node is cordoned", "if it may take pods again: kubectl uncordon " + node.Name}
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, t) {
			return exclusion{"the pod does not tolerate taint " + t.ToString(), taintAdvice(node.Name, t)}
		}
	}
	return exclusion{}
}

// taintAdvice returns advice about a taint. Kubernetes sets and removes the taints of the domain
// node.kubernetes.io itself, except out-of-service
// (https://kubernetes.io/docs/reference/labels-annotations-taints/).
func taintAdvice(node string, t *corev1.Taint) string {
	switch {
	case t.Key == corev1.TaintNodeOutOfService:
	case strings.HasPrefix(t.Key, "node.kubernetes.io/"):
		return "repair the node, which removes the taint: kubectl describe node " + node
	case gangs.Closes(*t):
		return "leave the node to its autoscaler or cloud provider, which starts or removes it"
	}
	return "if the pod may go there, give it a toleration, or take the taint away: kubectl taint nodes " + node + " " + t.ToString() + "-"
}

func tolerates(pod *corev1.Pod, t *corev1.Taint) bool {
	return corehelpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, t, true)
}

// label returns the node's name. If the agent is silent, label adds for how long.
func (a *Answer) label() string {
	if a.SilentSeconds == 0 {
		return a.Node
	}
	return a.Node + " for " + survey.AgeText(a.SilentSeconds)
}

// shownAdvices is the maximum number of different pieces of advice that a group shows.
const shownAdvices = 3

// advised is advice for one or several nodes of a group. The field `general` is the advice with the
// word NODE in place of a node's name. The field `text` is the advice to print: for one node, it
// has the node's name; for several nodes, it equals general. The field `first` is the name of the
// first of these nodes.
type advised struct{ text, general, first string }

// groupsOf groups nodes with the same Answer and Message. It sorts the groups by Answer, and then
// by size, the largest first.
func groupsOf(answers []Answer) []Group {
	var groups []Group
	for _, a := range answers {
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Answer == a.Answer && g.Message == a.Message })
		if i < 0 {
			groups = append(groups, Group{Answer: a.Answer, Message: a.Message})
			i = len(groups) - 1
		}
		groups[i].Nodes = append(groups[i].Nodes, a.Node)
		groups[i].Labels = append(groups[i].Labels, a.label())
		groups[i].advise(a.Advice, a.Node)
	}
	for i := range groups {
		groups[i].Advice = groups[i].adviceText()
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(slices.Index(answerOrder, a.Answer)-slices.Index(answerOrder, b.Answer), len(b.Nodes)-len(a.Nodes), cmp.Compare(a.Message, b.Message))
	})
	return groups
}

func (g *Group) advise(advice, node string) {
	general := strings.ReplaceAll(advice, node, "NODE")
	switch i := slices.IndexFunc(g.advices, func(a advised) bool { return a.general == general || a.text == advice }); {
	case advice == "":
	case i < 0:
		g.advices = append(g.advices, advised{advice, general, node})
	case g.advices[i].text != advice:
		g.advices[i].text = general
	}
}

// adviceText returns the group's advice. If there are several pieces of advice, it joins them, and
// names a node for each.
func (g *Group) adviceText() string {
	if len(g.advices) == 1 {
		return g.advices[0].text
	}
	var parts []string
	for _, a := range g.advices[:min(len(g.advices), shownAdvices)] {
		parts = append(parts, a.text+" ("+a.first+")")
	}
	if more := len(g.advices) - shownAdvices; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, "; ")
}
