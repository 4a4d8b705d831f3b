package gang

import (
	corev1 "k8s.io/api/core/v1"
)

// WholeCondition of a bound member tells that its gang was whole once: a scheduler that begins
// later does not take it for one that never was, when other members have gone since.
const WholeCondition corev1.PodConditionType = "berth.dev/gang-whole"

// marked says whether the pod has the WholeCondition.
func marked(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == WholeCondition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
