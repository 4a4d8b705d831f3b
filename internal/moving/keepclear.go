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

	"github.com/berth-dev/berth/internal/wire"
)

// daemonLabel is a label that the pods of DaemonSets have. Guards do not keep these pods off,
// because they run on their nodes independently of a plan.
const daemonLabel = "pod-template-generation"

// kept returns the nodes that need a guard during a step: the node that the pod leaves, the nodes
// of the wanted pods, and the new nodes of later moves that have no holder yet.
func (r *runner) kept(step int) map[string]bool {
	out := map[string]bool{r.plan.Moves[step].From: true}
	for _, w := range r.plan.Wanted {
		out[w.Node] = true
	}
	for i := step + 1; i < len(r.plan.Moves); i++ {
		if r.holders[i] == nil {
			out[r.plan.Moves[i].To] = true
		}
	}
	return out
}

// keep makes sure that each of the nodes has a guard that will exist for at least the given
// duration. It removes all other guards.
func (r *runner) keep(ctx context.Context, nodes map[string]bool, lasts time.Duration) error {
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if err := r.keepClear(ctx, node, lasts); err != nil {
			return fmt.Errorf("keeping others off %s: %w", node, err)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(r.guards)) {
		if nodes[node] {
			continue
		}
		if err := r.drop(ctx, r.guards[node]); err != nil {
			return err
		}
		delete(r.guards, node)
	}
	return nil
}

func (r *runner) keepClear(ctx context.Context, node string, lasts time.Duration) error {
	if old := r.guards[node]; old != nil {
		stands, err := r.stands(ctx, old, lasts)
		if err != nil || stands {
			return err
		}
		if err := r.drop(ctx, old); err != nil {
			return err
		}
		delete(r.guards, node)
	}
	guard, err := r.place(ctx, r.guardOf(node), node)
	if err == nil {
		r.guards[node] = guard
	}
	return err
}

// stands reports whether a holder or guard exists, and will still exist after the given duration.
func (r *runner) stands(ctx context.Context, pod *corev1.Pod, lasts time.Duration) (bool, error) {
	if time.Since(r.since[pod.UID]) > HolderLife-lasts {
		return false, nil
	}
	now, err := r.get(ctx, &Pod{pod.Namespace, pod.Name, pod.UID})
	if errors.Is(err, ErrChanged) {
		return false, nil
	}
	return err == nil && now.DeletionTimestamp == nil && !wire.Ended(now), err
}

// guardOf returns a pod that keeps other pods off a node. The pod requests no resources, and
// spec.nodeName is set, so no scheduler places it. While it exists, schedulers place only holders
// of this plan and pods of DaemonSets on the node. The guard has the priority of the first wanted
// pod, so only pods of a higher priority can preempt it.
func (r *runner) guardOf(node string) *corev1.Pod {
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
			Affinity:   &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{r.apart()}}},
		},
	}
}

// apart returns the anti-affinity term of a guard. It selects the pods that must stay off the
// guard's node: all pods except this plan's holders and pods of DaemonSets.
func (r *runner) apart() corev1.PodAffinityTerm {
	var own []string
	for i := range r.plan.Moves {
		own = append(own, string(r.plan.Moves[i].Pod.UID))
	}
	return corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: HolderLabel, Operator: metav1.LabelSelectorOpNotIn, Values: own},
			{Key: daemonLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
		}}}
}
