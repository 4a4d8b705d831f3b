package hollow

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// podContainers extends the kubelet's stub with pod cgroups in which every amount is 0. The kubelet
// reads the pod's cgroup when it resizes a pod in place (doPodResizeAction of
// pkg/kubelet/kuberuntime), and the stub returns an error for it. Because the amounts are 0, the
// kubelet treats every resize as an increase.
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
