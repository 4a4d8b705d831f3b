package gangs

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
)

// Asked has the inputs from which Ask builds a gangfit.Question: the pods of a gang, and functions
// that return other data.
type Asked struct {
	// Pods are the pods that need nodes and are planned together, the oldest first. Tasks has the
	// task of each of them. Seated are the pods of the gang that already have nodes. Seated may be
	// empty if no pod of the gang has a wish about another pod's place.
	Pods, Seated []*corev1.Pod
	Tasks        []string
	// Candidate returns a pod's candidate for ledgers, or nil if nothing is pinned.
	Candidate func(*corev1.Pod) (*ledger.Candidate, error)
	// Node returns the number and the ledger of the node of a seated pod. number is plan.Elsewhere
	// if no member that needs a node can use this node.
	Node func(name string) (number int, account *ledger.Node)
	// Looked adds label keys to the set keys: the keys by which required anti-affinity terms of
	// pods on nodes select other pods. Looked may be nil.
	Looked func(keys sets.Set[string])
}

// Ask adds the pods and their wishes to q. If the budget is used up, the question is incomplete.
// The error names a pod with an invalid request.
func (a *Asked) Ask(q *gangfit.Question) error {
	q.Dear.Members = len(a.Pods)
	looked := a.lookedAt(q.Budget)
	for i, pod := range a.Pods {
		c, err := a.Candidate(pod)
		if err != nil {
			return err
		}
		kinds := len(q.Kinds)
		m := plan.Member{Task: a.Tasks[i], Priority: corev1helpers.PodPriority(pod), Pod: suppose.Pod{Candidate: c, Asks: wire.ReadAmounts(pod), Ports: wire.PortsOf(pod)}}
		if !q.Add(m, likeness(pod, c, looked)) {
			return nil
		}
		if len(q.Kinds) > kinds {
			q.Dear.Terms += CountTerms(pod)
		}
	}
	return a.wish(q)
}

// wish adds the pods' wishes about each other's places to the question.
func (a *Asked) wish(q *gangfit.Question) error {
	for _, pod := range slices.Concat(a.Pods, a.Seated) {
		q.Dear.Names += wire.CountMates(pod)
	}
	if !q.Budget.Spend(q.Dear.Names) {
		return nil
	}
	wishes, err := wire.MatesOf(a.Pods, a.Seated)
	if err != nil {
		return err
	}
	for _, pod := range a.Seated {
		node, account := a.Node(pod.Spec.NodeName)
		seat := plan.Seat{Node: node}
		if account != nil {
			seat.Got.NUMA, seat.Got.Exact = account.View().Holding(string(pod.UID))
		}
		q.Seated = append(q.Seated, seat)
	}
	for i := range wishes {
		for _, w := range wishes[i] {
			q.Wish(i, plan.Wish(w))
		}
	}
	return nil
}

// LowestPriority returns the lowest priority of the pods. This counts as the gang's priority when
// the gang preempts, so that a member of low priority does not benefit from the priority of the
// other members.
func LowestPriority(pods []*corev1.Pod) int32 {
	lowest := corev1helpers.PodPriority(pods[0])
	for _, pod := range pods[1:] {
		lowest = min(lowest, corev1helpers.PodPriority(pod))
	}
	return lowest
}

// MayPreempt reports whether all of the pods may preempt other pods.
func MayPreempt(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == corev1.PreemptNever
	})
}

// PodTerms returns a pod's affinity and anti-affinity terms that select other pods: the required
// terms and, if preferred is set, also the preferred terms.
func PodTerms(pod *corev1.Pod, preferred bool) (out []corev1.PodAffinityTerm) {
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

// CountTerms returns the number of a pod's spread constraints, affinity terms and anti-affinity
// terms that select other pods.
func CountTerms(pod *corev1.Pod) int {
	return len(pod.Spec.TopologySpreadConstraints) + len(PodTerms(pod, true))
}

// lookedAt returns the label keys that can affect which nodes a pod may use. These are the keys in
// the selectors of the affinity terms and spread constraints of the gang's pods, and of the
// required anti-affinity of pods on nodes. lookedAt returns nil if all pods have equal labels, or
// if Looked is nil.
func (a *Asked) lookedAt(b *plan.Budget) sets.Set[string] {
	if a.Looked == nil || !slices.ContainsFunc(a.Pods, func(p *corev1.Pod) bool { return !maps.Equal(p.Labels, a.Pods[0].Labels) }) {
		return nil
	}
	keys := sets.New[string]()
	for _, pod := range a.Pods {
		for i := range pod.Spec.TopologySpreadConstraints {
			c := &pod.Spec.TopologySpreadConstraints[i]
			addSelected(keys, c.LabelSelector)
			keys.Insert(c.MatchLabelKeys...)
		}
		all := PodTerms(pod, true)
		for i := range all {
			addSelected(keys, all[i].LabelSelector)
			keys.Insert(all[i].MatchLabelKeys...)
			keys.Insert(all[i].MismatchLabelKeys...)
		}
		if !b.Spend(len(all) / 8) {
			return keys
		}
	}
	a.Looked(keys)
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

// likeness returns the key of a pod's kind. Every scheduler plugin treats pods with equal keys
// equally. The key contains only the labels that some selector uses (looked). If a pod has a
// resource claim, or a volume that may affect its node (isHarmless), its key is unique.
func likeness(pod *corev1.Pod, c *ledger.Candidate, looked sets.Set[string]) []byte {
	s, like := &pod.Spec, struct {
		Namespace, Owner string
		Labels           map[string]string
		Spec             corev1.PodSpec
	}{Namespace: pod.Namespace, Labels: map[string]string{}}
	priority := corev1helpers.PodPriority(pod) // a pod ignores nominated pods of lower priority
	like.Spec = corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
		TopologySpreadConstraints: s.TopologySpreadConstraints, Overhead: s.Overhead, Resources: s.Resources, ResourceClaims: s.ResourceClaims,
		HostNetwork: s.HostNetwork, SchedulerName: s.SchedulerName, Priority: &priority, InitContainers: likes(s.InitContainers), Containers: likes(s.Containers),
	}
	for key, value := range pod.Labels {
		if looked.Has(key) {
			like.Labels[key] = value
		}
	}
	for i := range s.Volumes {
		if !isHarmless(&s.Volumes[i]) {
			like.Spec.Volumes = append(like.Spec.Volumes, s.Volumes[i])
		}
	}
	if len(like.Spec.Volumes)+len(s.ResourceClaims) > 0 {
		like.Owner = string(pod.UID)
	}
	text, err := json.Marshal(like)
	if err != nil {
		return []byte(pod.UID)
	}
	if c != nil {
		text = append(text, ledger.RequestKey(c.Request)...)
	}
	return text
}

// likes returns copies of the containers with only the fields that scheduler plugins read.
func likes(containers []corev1.Container) (out []corev1.Container) {
	for i := range containers {
		c := &containers[i]
		out = append(out, corev1.Container{Image: c.Image, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
	}
	return out
}

// isHarmless reports whether a volume has no effect on the choice of the pod's node.
func isHarmless(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil || v.HostPath != nil
}
