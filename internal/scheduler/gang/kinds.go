package gang

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
)

// isCoupled says whether a pod's place changes where others like it may go.
func isCoupled(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return len(pod.Spec.TopologySpreadConstraints) > 0 || a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// aspects is what plugins look at in a pod.
type aspects struct {
	Namespace     string
	Labels        map[string]string
	NodeName      string
	Selector      map[string]string
	Affinity      *corev1.Affinity
	Tolerations   []corev1.Toleration
	Spread        []corev1.TopologySpreadConstraint
	Overhead      corev1.ResourceList
	Resources     *corev1.ResourceRequirements
	Init, Main    []wants
	Volumes       []corev1.Volume
	Claims        []corev1.PodResourceClaim
	HostNetwork   bool
	Shape         *ledger.Shape // nil: nothing is pinned
	Owner         string        // of pods with claims of their own
	SchedulerName string
	Priority      int32 // of pods that are nominated to a node some count and some do not
}

type wants struct {
	Image     string
	Resources corev1.ResourceRequirements
	Ports     []corev1.ContainerPort
	Restart   *corev1.ContainerRestartPolicy
}

// spreadKeys are the labels of nodes that a pod's spread constraints go by.
func spreadKeys(pod *corev1.Pod) (keys []string) {
	for i := range pod.Spec.TopologySpreadConstraints {
		keys = append(keys, pod.Spec.TopologySpreadConstraints[i].TopologyKey)
	}
	return keys
}

// affinityKeys are the labels of nodes that a pod's required terms about other pods go by.
func affinityKeys(pod *corev1.Pod) (keys []string) {
	for _, term := range podTerms(pod, false) {
		keys = append(keys, term.TopologyKey)
	}
	return keys
}

// podTerms are a pod's terms about other pods: the required ones, and the preferred ones if asked
// for.
func podTerms(pod *corev1.Pod, preferred bool) (out []corev1.PodAffinityTerm) {
	a := pod.Spec.Affinity
	if a == nil {
		return nil
	}
	var weighted []corev1.WeightedPodAffinityTerm
	if a.PodAffinity != nil {
		out = append(out, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		out = append(out, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if preferred {
		for i := range weighted {
			out = append(out, weighted[i].PodAffinityTerm)
		}
	}
	return out
}

// terms is how many terms about other pods a pod has.
func terms(pod *corev1.Pod) int {
	return len(pod.Spec.TopologySpreadConstraints) + len(podTerms(pod, true))
}

// lookedAt are the labels by which pods of the trial are selected: by each other, and by pods on
// nodes that want no company. Others make no difference to where a pod may go. It is nil if the
// pods do not differ by labels.
func (t *trial) lookedAt() sets.Set[string] {
	pods := t.job.pods
	if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !maps.Equal(p.Labels, pods[0].Labels) }) {
		return nil
	}
	keys := sets.New[string]()
	for _, pod := range pods {
		for i := range pod.Spec.TopologySpreadConstraints {
			c := &pod.Spec.TopologySpreadConstraints[i]
			addSelected(keys, c.LabelSelector)
			keys.Insert(c.MatchLabelKeys...)
		}
		all := podTerms(pod, true)
		for i := range all {
			addSelected(keys, all[i].LabelSelector)
			keys.Insert(all[i].MatchLabelKeys...)
			keys.Insert(all[i].MismatchLabelKeys...)
		}
		if !t.budget.Spend(len(all) / 8) {
			return keys
		}
	}
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
	return keys
}

func addSelected(keys sets.Set[string], s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	for key := range s.MatchLabels {
		keys.Insert(key)
	}
	for i := range s.MatchExpressions {
		keys.Insert(s.MatchExpressions[i].Key)
	}
}

// loners are the members on a trial that refuse company, by label of nodes, its value, and kind.
type loners map[string]map[string]map[int]*loner

type loner struct {
	terms []fwk.AffinityTerm
	count int
}

// add notes that so many more members of the kind are on the node; fewer if n is negative.
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

// mind reports if a member wants no such company on the node.
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

// likeness is equal for pods that every plugin treats alike: of their labels the ones that are
// looked at count. Pods with volumes or claims that are not told apart by their pods' specs alone
// have one of their own.
func likeness(pod *corev1.Pod, c *ledger.Candidate, looked sets.Set[string]) []byte {
	s := &pod.Spec
	a := aspects{
		Namespace: pod.Namespace, Labels: map[string]string{}, NodeName: s.NodeName, Selector: s.NodeSelector, Affinity: s.Affinity,
		Tolerations: s.Tolerations, Spread: s.TopologySpreadConstraints, Overhead: s.Overhead, Resources: s.Resources,
		Claims: s.ResourceClaims, HostNetwork: s.HostNetwork, SchedulerName: s.SchedulerName,
		Priority: corev1helpers.PodPriority(pod),
		Init:     wantsOf(s.InitContainers), Main: wantsOf(s.Containers),
	}
	if c != nil {
		a.Shape = &c.Shape
	}
	for key, value := range pod.Labels {
		if looked.Has(key) {
			a.Labels[key] = value
		}
	}
	for i := range s.Volumes {
		if !isHarmless(&s.Volumes[i]) {
			a.Volumes = append(a.Volumes, s.Volumes[i])
		}
	}
	if len(a.Volumes) > 0 || len(a.Claims) > 0 || c != nil && c.Shape == 0 {
		a.Owner = string(pod.UID)
	}
	text, err := json.Marshal(a)
	if err != nil {
		return []byte(pod.UID)
	}
	return text
}

func wantsOf(containers []corev1.Container) []wants {
	out := make([]wants, len(containers))
	for i := range containers {
		c := &containers[i]
		out[i] = wants{c.Image, c.Resources, c.Ports, c.RestartPolicy}
	}
	return out
}

// isHarmless says whether a volume has no say in the pod's node.
func isHarmless(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil || v.HostPath != nil
}
