//go:build !kube133 && !kube134 && !kube135 && !kube136

package oracle

import (
	"context"
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
	return allocation.NewInMemoryManager(klog.Background(), r.statuses, func(context.Context, *corev1.Pod) {},
		func() []*corev1.Pod { return slices.Clone(r.specs) }, r.spec, ready{}, record.NewFakeRecorder(1000))
}

func newResizes(c cm.ContainerManager, runtime kubecontainer.Runtime, m allocation.Manager) lifecycle.PodAdmitHandler {
	return allocation.NewPodResizesAdmitHandler(c, runtime, m)
}

func addPod(m allocation.Manager, active []*corev1.Pod, pod *corev1.Pod) (ok bool, reason, message string) {
	return m.AddPod(context.Background(), active, pod)
}

func retry(m allocation.Manager, uid types.UID) {
	m.PushPendingResize(klog.Background(), uid)
	m.RetryPendingResizes(context.Background(), allocation.TriggerReasonPodUpdated)
}
