//go:build kube136

package oracle

import corev1 "k8s.io/api/core/v1"

func (a asked) AllocatePod(pod *corev1.Pod) error {
	a.pass()
	return a.HintProvider.AllocatePod(pod)
}
