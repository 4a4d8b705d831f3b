//go:build !kube136

package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// updates returns the events that kube-scheduler generates for a pod's update.
func updates(now, before *corev1.Pod) []fwk.ClusterEvent {
	return framework.PodSchedulingPropertiesChange(now, before, true)
}
