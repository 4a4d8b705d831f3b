package scheduler

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
)

// Spread is a constraint with which PodTopologySpread scores nodes for a pod. Key is the label
// whose values divide the nodes into domains. Selector selects the counted pods of the pod's
// namespace.
type Spread struct {
	Key      string
	Selector labels.Selector
}

// preferences has the properties by which other plugins score nodes for one pod. Nodes with equal
// properties form a class. The plugins give all nodes of a class the same score, so only the best
// nodes of each class, by Berth's own order, need to be examined. The properties are the score of
// NodeAffinity, the label values and counts of PodTopologySpread, the label values of
// InterPodAffinity, and the taints of TaintToleration.
type preferences struct {
	namespace string
	// keys has the keys of the node labels that the plugins read.
	keys []string
	// counted selects the pods that PodTopologySpread counts on each node, if a constraint spreads
	// pods over nodes.
	counted []labels.Selector
	terms   *nodeaffinity.PreferredSchedulingTerms
	// classes has the number of each class, by the key that classOf builds.
	classes map[string]int
	key     []byte
}

// maxClasses is the maximum number of classes. If there are more, kube-scheduler searches as it
// would without Candidates.
const maxClasses = 64

// fewOfClass is the minimum of Candidates.few, the number of nodes that Next returns at a time, if
// there are several classes.
const fewOfClass = 8

// preferencesOf reads a pod's preferences; nil means that it has none. It returns false if the
// nodes cannot be divided into classes. For example, if the domains of a preferred inter-pod term
// are single nodes, the term scores each node by the pods on it, but classOf does not count these
// pods.
func preferencesOf(pod *corev1.Pod, by []Spread) (*preferences, bool) {
	found := &preferences{namespace: pod.Namespace, classes: map[string]int{}}
	if !found.affine(pod.Spec.Affinity) {
		return nil, false
	}
	for _, c := range by {
		if found.keys = append(found.keys, c.Key); c.Key == corev1.LabelHostname {
			found.counted = append(found.counted, c.Selector)
		}
	}
	if len(found.keys) == 0 && found.terms == nil {
		return nil, true
	}
	return found, true
}

// affine reads preferred affinity. It returns false if an inter-pod term has the topology key
// kubernetes.io/hostname, or if a term for nodes is invalid.
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

func (f *preferences) classOf(info fwk.NodeInfo) int {
	node, key := info.Node(), f.key[:0]
	for _, label := range f.keys {
		value, has := node.Labels[label]
		switch {
		case !has:
			key = append(key, 0)
		case label == corev1.LabelHostname: // each node has its own value, so only the presence of the label matters
			key = append(key, 1)
		default:
			key = binary.AppendUvarint(append(key, 2), uint64(len(value)))
			key = append(key, value...)
		}
	}
	for _, selector := range f.counted {
		key = binary.AppendUvarint(key, uint64(f.count(info, selector)))
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

// count counts pods as PodTopologySpread does (countPodsMatchSelector).
func (f *preferences) count(info fwk.NodeInfo, selector labels.Selector) (count int) {
	if selector.Empty() {
		return 0
	}
	for _, p := range info.GetPods() {
		if pod := p.GetPod(); pod.Namespace == f.namespace && pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) {
			count++
		}
	}
	return count
}
