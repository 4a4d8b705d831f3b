//go:build !kube136

package command

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// itself is the event of a change to the waiting pod, another that of a change to another waiting
// pod.
var itself, another = framework.EventTargetPodUpdate, framework.EventUnscheduledPodUpdate

// podOf returns the pod of an entity; nil if it is a group.
func podOf(e entity) *framework.QueuedPodInfo {
	info, _ := e.(*framework.QueuedPodInfo)
	return info
}

func informersFor(client kubernetes.Interface) informers.SharedInformerFactory {
	return kubescheduler.NewInformerFactory(client, 0, nil)
}

func patchStatus(c fwk.APICacher, pod *corev1.Pod, condition *corev1.PodCondition, nominating *fwk.NominatingInfo) error {
	_, err := c.PatchPodStatus(pod, []*corev1.PodCondition{condition}, nominating)
	return err
}
