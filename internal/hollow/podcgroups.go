package hollow

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// podContainers is the kubelet's stub, with empty cgroups of pods. A kubelet reads them for a
// resize in place and fails with the stub alone (doPodResizeAction of pkg/kubelet/kuberuntime). So
// every resize looks as if the pod grows.
type podContainers struct{ cm.PodContainerManager }

// NewPodContainerManager implements cm.ContainerManager.
func (m *manager) NewPodContainerManager() cm.PodContainerManager {
	return podContainers{m.ContainerManager.NewPodContainerManager()}
}

// SetPodCgroupConfig implements cm.PodContainerManager.
func (podContainers) SetPodCgroupConfig(klog.Logger, *v1.Pod, *cm.ResourceConfig) error { return nil }

// GetPodCgroupConfig implements cm.PodContainerManager.
func (podContainers) GetPodCgroupConfig(*v1.Pod, v1.ResourceName) (*cm.ResourceConfig, error) {
	return &cm.ResourceConfig{Memory: new(int64), CPUQuota: new(int64), CPUShares: new(uint64), CPUPeriod: new(uint64)}, nil
}
