package scheduler

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler/spread"
)

// Spread is what PodTopologySpread scores nodes by for a pod, in a profile that has it score.
type Spread struct {
	// Memory remembers what the scheduler's nodes hold.
	Memory      *spread.Memory
	Constraints []spread.Constraint
}

// preferences are what other plugins read of a node to weigh it for one pod, by the pod's author or
// by the profile. Nodes that are equal in all of it make a class: the plugins give them the same
// score, so that of each class only the best by Berth's own order need be looked at. Which plugins
// read what: NodeAffinity terms, PodTopologySpread values and counts, InterPodAffinity values,
// TaintToleration taints.
type preferences struct {
	values []*spread.Values
	// counts are of pods that count on the node itself, where pods are spread over nodes.
	counts []*spread.Counts
	terms  *nodeaffinity.PreferredSchedulingTerms
	// classes are numbered as they are found.
	classes map[string]int
	key     []byte
}

// maxClasses bounds into how many classes nodes are divided. With more, all nodes are looked at.
const maxClasses = 64

// fewOfClass is how many nodes of a class are named at a time at least.
const fewOfClass = 8

// preferencesOf reads what is preferred of nodes; nil for nothing. It returns false where they
// cannot be divided: the pods that a preferred inter-pod term selects are not counted node by node.
func preferencesOf(pod *corev1.Pod, infos []fwk.NodeInfo, by Spread) (*preferences, bool) {
	found := &preferences{classes: map[string]int{}}
	keys, ok := found.affine(pod.Spec.Affinity)
	if !ok {
		return nil, false
	}
	if len(keys) == 0 && len(by.Constraints) == 0 {
		if found.terms == nil {
			return nil, true
		}
		return found, true
	}
	by.Memory.Look(infos)
	for _, c := range by.Constraints {
		if keys = append(keys, c.Key); c.Key == corev1.LabelHostname {
			found.counts = append(found.counts, by.Memory.Counts(pod.Namespace, c.Selector))
		}
	}
	for _, key := range keys {
		found.values = append(found.values, by.Memory.Values(key))
	}
	return found, true
}

// affine reads preferred affinity, and returns the keys of labels that inter-pod terms are about.
func (f *preferences) affine(a *corev1.Affinity) (keys []string, ok bool) {
	if a == nil {
		return nil, true
	}
	if a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if f.terms = terms; err != nil {
			return nil, false
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
		keys = append(keys, terms[i].PodAffinityTerm.TopologyKey)
	}
	return keys, !slices.Contains(keys, corev1.LabelHostname)
}

// classOf returns the class of the node that has the place among all nodes.
func (f *preferences) classOf(node *corev1.Node, place int) int {
	key := f.key[:0]
	for _, v := range f.values {
		key = binary.AppendUvarint(key, uint64(v.At(place)))
	}
	for _, c := range f.counts {
		key = binary.AppendUvarint(key, uint64(c.At(place)))
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
