package scheduler

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler/nodes"
)

// Spread is what a profile spreads a pod by whose author does not say it: over the values of these
// labels of nodes, beside the pods that the selector selects. The zero Spread is none.
type Spread struct {
	Keys     []string
	Selector labels.Selector
}

// preferences are what other plugins read of a node to weigh it for one pod, by the pod's author or
// by the profile. Nodes that are equal in all of it make a class: the plugins give them the same
// score, so that of each class only the best by Berth's own order need be looked at. Which plugins
// read what: NodeAffinity terms, PodTopologySpread keys and counts, InterPodAffinity keys,
// TaintToleration taints.
type preferences struct {
	keys []string
	// counts are of pods that count on the node itself, where pods are spread over nodes.
	counts    []selectedPods
	namespace string
	terms     *nodeaffinity.PreferredSchedulingTerms
	// classes are numbered as they are found.
	classes map[string]int
	key     []byte
}

// selectedPods counts the pods that a selector selects, by the numbers of nodes.
type selectedPods struct {
	selector labels.Selector
	held     []podCount
}

// maxClasses bounds into how many classes nodes are divided. With more, all nodes are looked at.
const maxClasses = 64

// fewOfClass is how many nodes of a class are named at a time at least.
const fewOfClass = 8

// preferencesOf reads what is preferred of nodes; nil for nothing. It returns false where they
// cannot be divided: the pods that a preferred inter-pod term selects are not counted node by node.
func (p *Plugin) preferencesOf(pod *corev1.Pod, spread Spread) (*preferences, bool) {
	found := &preferences{namespace: pod.Namespace}
	if spread.Selector != nil && !spread.Selector.Empty() {
		for _, key := range spread.Keys {
			found.spread(key, spread.Selector)
		}
	}
	if !found.spreads(pod) || !found.affine(pod.Spec.Affinity) {
		return nil, false
	}
	if len(found.keys) == 0 && len(found.counts) == 0 && found.terms == nil {
		return nil, true
	}
	found.classes = map[string]int{}
	for i := range found.counts {
		c := &found.counts[i]
		c.held = p.selected.of(pod.Namespace, c.selector, p.core.table.Numbers())
	}
	return found, true
}

func (f *preferences) spread(key string, of labels.Selector) {
	if key == corev1.LabelHostname {
		f.counts = append(f.counts, selectedPods{selector: of})
	} else {
		f.keys = append(f.keys, key)
	}
}

// spreads reads the constraints of the pod that PodTopologySpread scores by.
func (f *preferences) spreads(pod *corev1.Pod) bool {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return false
		}
		for _, key := range c.MatchLabelKeys {
			if value, has := pod.Labels[key]; has {
				r, err := labels.NewRequirement(key, selection.In, []string{value})
				if err != nil {
					return false
				}
				selector = selector.Add(*r)
			}
		}
		f.spread(c.TopologyKey, selector)
	}
	return true
}

// affine reads preferred affinity.
func (f *preferences) affine(a *corev1.Affinity) bool {
	if a == nil {
		return true
	}
	if a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if f.terms = terms; err != nil {
			return false
		}
	}
	var terms []corev1.WeightedPodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for i := range terms {
		f.keys = append(f.keys, terms[i].PodAffinityTerm.TopologyKey)
	}
	return !slices.Contains(f.keys, corev1.LabelHostname)
}

// classOf returns the class of a node.
func (f *preferences) classOf(info fwk.NodeInfo, n *nodes.Node) int {
	node, key := info.Node(), f.key[:0]
	for _, k := range f.keys {
		value, has := node.Labels[k]
		if key = append(key, 0); has {
			key[len(key)-1] = 1
		}
		key = append(binary.AppendUvarint(key, uint64(len(value))), value...)
	}
	if _, has := node.Labels[corev1.LabelHostname]; len(f.counts) > 0 && !has {
		key = append(key, 0xff) // such a node is not scored
	}
	for i := range f.counts {
		key = binary.AppendUvarint(key, uint64(f.counts[i].on(info, n.Number(), f.namespace)))
	}
	if f.terms != nil {
		key = binary.AppendVarint(key, f.terms.Score(node))
	}
	for i := range node.Spec.Taints {
		if t := &node.Spec.Taints[i]; t.Effect == corev1.TaintEffectPreferNoSchedule {
			key = append(append(append(append(key, t.Key...), 0), t.Value...), 0)
		}
	}
	f.key = key
	class, known := f.classes[string(key)]
	if !known {
		class = len(f.classes)
		f.classes[string(key)] = class
	}
	return class
}

// podCounts remembers how many pods on each node a selector selects. Only the goroutine that
// schedules uses it.
type podCounts struct {
	bySelector map[string][]podCount
}

// podCount is how many pods a node had at a generation of its NodeInfo.
type podCount struct {
	generation int64
	pods       int
}

// maxSelectors bounds how many selectors are remembered. With more, all begin again.
const maxSelectors = 128

// of returns the counts of a selector, by the numbers of nodes, for at least so many.
func (c *podCounts) of(namespace string, selector labels.Selector, nodes int) []podCount {
	key := namespace + "/" + selector.String()
	if c.bySelector == nil || len(c.bySelector) >= maxSelectors && c.bySelector[key] == nil {
		c.bySelector = map[string][]podCount{}
	}
	held := c.bySelector[key]
	if len(held) < nodes {
		held = append(held, make([]podCount, nodes-len(held))...)
		c.bySelector[key] = held
	}
	return held
}

// on returns how many there are on the node of that number.
func (c *selectedPods) on(info fwk.NodeInfo, number int, namespace string) int {
	if number >= len(c.held) {
		return countPods(info, namespace, c.selector)
	}
	held := &c.held[number]
	if now := info.GetGeneration(); held.generation != now || now == 0 {
		*held = podCount{now, countPods(info, namespace, c.selector)}
	}
	return held.pods
}

// countPods counts as PodTopologySpread does (countPodsMatchSelector of its package).
func countPods(info fwk.NodeInfo, namespace string, selector labels.Selector) (count int) {
	if selector.Empty() {
		return 0
	}
	for _, p := range info.GetPods() {
		pod := p.GetPod()
		if pod.Namespace == namespace && pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) {
			count++
		}
	}
	return count
}
