package moving

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// daemonLabel is on pods of DaemonSets: they go to their node whatever is planned.
const daemonLabel = "pod-template-generation"

// guard is a pod that keeps others off its node.
type guard struct {
	pod *corev1.Pod
	// lets is the pod of which the new one may come nevertheless; "" lets none in.
	lets types.UID
}

// kept are the nodes that nobody may come to during a step, by the pod whose new one may: the node
// that the pod leaves, those of the wanted pods, and those of places that no holder has yet.
func (r *runner) kept(step int) map[string]*Move {
	out := map[string]*Move{}
	for _, w := range r.plan.Wanted {
		out[w.Node] = nil
	}
	m := &r.plan.Moves[step]
	out[m.From] = nil
	for i := step + 1; i < len(r.plan.Moves); i++ {
		if r.holders[i] == nil {
			out[r.plan.Moves[i].To] = nil
		}
	}
	if _, ok := out[m.To]; ok {
		out[m.To] = m
	}
	return out
}

// keep has a guard on each of those nodes, and on no other.
func (r *runner) keep(ctx context.Context, nodes map[string]*Move) error {
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if err := r.keepClear(ctx, node, nodes[node]); err != nil {
			return fmt.Errorf("keeping others off %s: %w", node, err)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(r.guards)) {
		if _, ok := nodes[node]; ok {
			continue
		}
		if err := r.drop(ctx, r.guards[node].pod); err != nil {
			return err
		}
		delete(r.guards, node)
	}
	return nil
}

// keepClear has a guard on the node. Where another one is there it goes after the new one has come.
func (r *runner) keepClear(ctx context.Context, node string, lets *Move) error {
	old, ok := r.guards[node]
	var uid types.UID
	var like *corev1.Pod
	if lets != nil {
		var err error
		if like, err = r.get(ctx, &lets.Pod); err != nil {
			return err
		}
		uid = like.UID
	}
	if ok && old.lets == uid {
		stands, err := r.stands(ctx, old.pod)
		if err != nil || stands {
			return err
		}
	}
	pod, err := r.place(ctx, r.guardOf(node, like), node)
	if err != nil {
		return err
	}
	r.guards[node] = guard{pod, uid}
	if ok {
		return r.drop(ctx, old.pod)
	}
	return nil
}

// stands says whether a pod that was placed is there still.
func (r *runner) stands(ctx context.Context, pod *corev1.Pod) (bool, error) {
	now, err := r.get(ctx, &Pod{pod.Namespace, pod.Name, pod.UID})
	if errors.Is(err, ErrChanged) {
		return false, nil
	}
	return err == nil && now.DeletionTimestamp == nil && !wire.Ended(now), err
}

// guardOf is a pod that keeps others off a node: it asks for nothing, is on the node without a
// scheduler's doing, and no pod may be beside it but holders of this plan, pods of DaemonSets, and
// those with all labels of like, where like is not nil. It is as important as the wanted pods, so
// that only more important ones push it away.
func (r *runner) guardOf(node string, like *corev1.Pod) *corev1.Pod {
	no, life, grace := false, int64(HolderLife/time.Second), int64(0)
	w := &r.wanted[0].Spec
	none := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0"), corev1.ResourceMemory: resource.MustParse("0")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "berth-keeps-clear-", Namespace: r.plan.Wanted[0].Namespace, Labels: map[string]string{HolderLabel: string(r.plan.Wanted[0].UID)}},
		Spec: corev1.PodSpec{
			NodeName: node, SchedulerName: w.SchedulerName, PriorityClassName: w.PriorityClassName, Priority: w.Priority, PreemptionPolicy: w.PreemptionPolicy,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, SecurityContext: w.SecurityContext, RestartPolicy: corev1.RestartPolicyNever,
			ActiveDeadlineSeconds: &life, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Containers: []corev1.Container{{Name: "keeps-clear", Image: r.Image, SecurityContext: w.Containers[0].SecurityContext, Resources: corev1.ResourceRequirements{Requests: none, Limits: none}}},
			Affinity:   &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: r.apart(like)}},
		},
	}
}

// apart says whom a guard keeps off. A pod is kept off by any of several terms.
func (r *runner) apart(like *corev1.Pod) (terms []corev1.PodAffinityTerm) {
	var own []string
	for i := range r.plan.Moves {
		own = append(own, string(r.plan.Moves[i].Pod.UID))
	}
	term := func(also ...metav1.LabelSelectorRequirement) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: &metav1.LabelSelector{
			MatchExpressions: append([]metav1.LabelSelectorRequirement{
				{Key: HolderLabel, Operator: metav1.LabelSelectorOpNotIn, Values: own},
				{Key: daemonLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
			}, also...)}}
	}
	if like == nil {
		return []corev1.PodAffinityTerm{term()}
	}
	for _, key := range slices.Sorted(maps.Keys(like.Labels)) {
		terms = append(terms, term(metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{like.Labels[key]}}))
	}
	return terms
}
