package query

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/survey"
)

// term is one requirement of a pod on the labels or the name of its node.
type term struct {
	text, key string
	values    []string
	matches   func(*corev1.Node) bool
	// field means that key is a field of the Node (metadata.name), not a label.
	field bool
}

// termsOf returns a pod's requirements on the labels and the name of its node. A node must match
// all of them. If a node affinity has several terms, which are alternatives, they are one
// requirement.
func termsOf(pod *corev1.Pod) (out []term) {
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		value := pod.Spec.NodeSelector[key]
		out = append(out, term{text: "nodeSelector " + key + "=" + value, key: key, values: []string{value}, matches: func(n *corev1.Node) bool {
			has, ok := n.Labels[key]
			return ok && has == value
		}})
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return out
	}
	required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	matcher := func(s corev1.NodeSelector) func(*corev1.Node) bool {
		return func(n *corev1.Node) bool {
			parsed, err := nodeaffinity.NewNodeSelector(&s)
			return err == nil && parsed.Match(n)
		}
	}
	if len(required.NodeSelectorTerms) != 1 {
		return append(out, term{text: fmt.Sprintf("any of the %d terms of its node affinity", len(required.NodeSelectorTerms)), matches: matcher(*required)})
	}
	one := required.NodeSelectorTerms[0]
	add := func(r corev1.NodeSelectorRequirement, part corev1.NodeSelectorTerm) {
		t := term{text: "node affinity " + strings.TrimSpace(r.Key+" "+string(r.Operator)+" "+strings.Join(r.Values, ",")), key: r.Key,
			matches: matcher(corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{part}}), field: len(part.MatchFields) > 0}
		if r.Operator == corev1.NodeSelectorOpIn {
			t.values = r.Values
		}
		out = append(out, t)
	}
	for _, r := range one.MatchExpressions {
		add(r, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}})
	}
	for _, r := range one.MatchFields {
		add(r, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{r}})
	}
	return out
}

// maxKnown is the maximum number of values of a label that are listed.
const maxKnown = 6

// noNodeHas returns advice about requirements of a pod that no node meets. The keys are texts of
// terms (term.text), and names of resources. It returns an empty map if not all Nodes are known.
func noNodeHas(s *survey.Survey, pod *corev1.Pod, asked amounts.List, classes map[corev1.ResourceName]bool) map[string]string {
	out := map[string]string{}
	var nodes []*corev1.Node
	for _, n := range s.States {
		if n.Object != nil {
			nodes = append(nodes, n.Object)
		}
	}
	if !s.Facts.NodesKnown || s.Partial || len(nodes) == 0 {
		return out
	}
	for _, t := range termsOf(pod) {
		if t.key != "" && !slices.ContainsFunc(nodes, t.matches) {
			out[t.text] = t.advice(nodes)
		}
	}
	most := map[string]int64{}
	for _, n := range nodes {
		all, told := nodestate.Allocatable(n)
		if !told {
			return out
		}
		for r, amount := range all {
			most[r] = max(most[r], amount)
		}
	}
	for r, amount := range asked {
		switch {
		case amount <= most[r] || classes[corev1.ResourceName(r)]:
		case most[r] > 0:
			has, _ := amounts.Texts(r, most[r], amount)
			out[r] = "no node has more than " + has + " " + amounts.Name(r, most[r]) + " for pods: ask for at most that, or split the pod"
		default:
			known := slices.DeleteFunc(slices.Sorted(maps.Keys(most)), func(k string) bool { return most[k] == 0 || !amounts.IsExtended(k) })
			out[r] = "no node offers " + r + suggest.DidYouMean(r, known) + ": correct the name, or check that the device plugin runs"
		}
	}
	return out
}

// advice returns advice about a term that no node matches. It names the values that the nodes have
// for the label in question, or a similar label.
func (t *term) advice(nodes []*corev1.Node) string {
	if t.field {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		return "no node matches " + strings.TrimPrefix(t.text, "node affinity ") + suggest.DidYouMean(strings.Join(t.values, ","), names) + ": correct the pod's node affinity"
	}
	values, keys := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		for key, value := range n.Labels {
			if keys[key] = true; key == t.key {
				values[value] = true
			}
		}
	}
	if len(values) == 0 {
		text := "no node has a label " + t.key + suggest.DidYouMean(t.key, slices.Sorted(maps.Keys(keys))) + ": correct the pod's " + t.kind() + ", or label nodes"
		if len(t.values) > 0 {
			text += ": kubectl label node NODE " + t.key + "=" + t.values[0]
		}
		return text
	}
	known := slices.Sorted(maps.Keys(values))
	text := "no node matches " + strings.TrimPrefix(strings.TrimPrefix(t.text, "nodeSelector "), "node affinity ")
	if len(t.values) > 0 {
		text += suggest.DidYouMean(t.values[0], known)
	}
	more := ""
	if len(known) > maxKnown {
		known, more = known[:maxKnown], ", ..."
	}
	return text + ", nodes have " + t.key + "=" + strings.Join(known, ", ") + more + ": correct the pod's " + t.kind() + ", or label nodes"
}

func (t *term) kind() string {
	kind, _, _ := strings.Cut(t.text, " "+t.key)
	return kind
}

// adviceFor returns the advice about a requirement that no node meets, or that only a node with
// authority berth can meet. Otherwise it returns "".
func (q *question) adviceFor(why string) string {
	for what, advice := range q.noNode {
		if strings.HasSuffix(why, ": "+what) || strings.Contains(why, " "+what+" in total, ") || what == amounts.CPU && strings.Contains(why, " CPUs in total, ") {
			return advice
		}
	}
	if strings.Contains(why, "a node with authority berth") {
		return "leave the annotation out; or let Berth decide on some nodes: agent.authority=label, and kubectl label node NODE berth.dev/authority=berth (docs/enforcement.md)"
	}
	return ""
}
