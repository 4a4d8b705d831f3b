//go:build kube136

package oracle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func newAllocations(r *Resizer) allocation.Manager {
	m := allocation.NewInMemoryManager(r.statuses, func(*corev1.Pod) {}, func() []*corev1.Pod { return slices.Clone(r.specs) }, r.spec, ready{}, record.NewFakeRecorder(1000))
	m.SetContainerRuntime(swapping{r: r})
	return m
}

func newResizes(c cm.ContainerManager, runtime kubecontainer.Runtime, m allocation.Manager) lifecycle.PodAdmitHandler {
	return allocation.NewPodResizesAdmitHandler(c, runtime, m, klog.Background())
}

func addPod(m allocation.Manager, active []*corev1.Pod, pod *corev1.Pod) (ok bool, reason, message string) {
	return m.AddPod(active, pod)
}

func retry(m allocation.Manager, uid types.UID) {
	m.PushPendingResize(uid)
	m.RetryPendingResizes(allocation.TriggerReasonPodUpdated)
}
