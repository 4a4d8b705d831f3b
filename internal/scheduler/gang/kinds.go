package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/gangs"
)

// isCoupled reports whether the pod has spread constraints, or affinity or anti-affinity terms
// about other pods. If it does, each placed member of the gang may change which nodes are feasible
// for pods of the same kind (see the type kind).
func isCoupled(pod *corev1.Pod) bool { return gangs.CountTerms(pod) > 0 }

func spreadKeys(pod *corev1.Pod) (keys []string) {
	for i := range pod.Spec.TopologySpreadConstraints {
		keys = append(keys, pod.Spec.TopologySpreadConstraints[i].TopologyKey)
	}
	return keys
}

// affinityKeys returns the topology keys of a pod's required affinity and anti-affinity terms.
func affinityKeys(pod *corev1.Pod) (keys []string) {
	for _, term := range gangs.PodTerms(pod, false) {
		keys = append(keys, term.TopologyKey)
	}
	return keys
}

// looked adds label keys to the set keys: the keys by which required anti-affinity terms of
// existing pods select other pods.
func (t *trial) looked(keys sets.Set[string]) {
	for _, info := range t.infos {
		loners := info.GetPodsWithRequiredAntiAffinity()
		t.budget.Spend(len(loners) / 8)
		for _, body := range loners {
			for _, term := range body.GetRequiredAntiAffinityTerms() {
				all, _ := term.Selector.Requirements()
				for _, r := range all {
					keys.Insert(r.Key())
				}
			}
		}
	}
}

// loners records the placed members of a trial that have required anti-affinity, by topology key,
// value of the key, and kind.
type loners map[string]map[string]map[int]*loner

type loner struct {
	terms []fwk.AffinityTerm
	count int
}

// add records n more members of the kind on the node; n may be negative.
func (l *loners) add(body fwk.PodInfo, kind int, node *corev1.Node, n int) {
	all := body.GetRequiredAntiAffinityTerms()
	done := sets.New[string]()
	for i := range all {
		key := all[i].TopologyKey
		value, ok := node.Labels[key]
		if !ok || done.Has(key) {
			continue
		}
		done.Insert(key)
		if *l == nil {
			*l = loners{}
		}
		if (*l)[key] == nil {
			(*l)[key] = map[string]map[int]*loner{}
		}
		there := (*l)[key][value]
		if there == nil {
			there = map[int]*loner{}
			(*l)[key][value] = there
		}
		if there[kind] == nil {
			there[kind] = &loner{terms: slices.DeleteFunc(slices.Clone(all), func(t fwk.AffinityTerm) bool { return t.TopologyKey != key })}
		}
		if there[kind].count += n; there[kind].count == 0 {
			delete(there, kind)
		}
	}
}

// mind reports whether the required anti-affinity of a placed member excludes the pod from the
// node.
func (l loners) mind(pod *corev1.Pod, node *corev1.Node) bool {
	for key, by := range l {
		value, ok := node.Labels[key]
		if !ok {
			continue
		}
		for _, loner := range by[value] {
			if slices.ContainsFunc(loner.terms, func(t fwk.AffinityTerm) bool { return t.Matches(pod, nil) }) {
				return true
			}
		}
	}
	return false
}
