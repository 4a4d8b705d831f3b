//go:build kube136

package command

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// itself is the event of a change to the waiting pod. another is a change to a pod on a node,
// because the queue gets no events about changes to other waiting pods.
var itself, another = framework.EventUnscheduledPodUpdate, framework.EventAssignedPodUpdate

// podOf returns the pod of an entity.
func podOf(e entity) *framework.QueuedPodInfo { return e }

func informersFor(client kubernetes.Interface) informers.SharedInformerFactory {
	return kubescheduler.NewInformerFactory(client, 0)
}

func patchStatus(c fwk.APICacher, pod *corev1.Pod, condition *corev1.PodCondition, nominating *fwk.NominatingInfo) error {
	_, err := c.PatchPodStatus(pod, condition, nominating)
	return err
}
