package hollow

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginwatcherapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	plugincache "k8s.io/kubernetes/pkg/kubelet/pluginmanager/cache"
)

func (m *manager) GetPluginRegistrationHandlers() map[string]plugincache.PluginHandler {
	return map[string]plugincache.PluginHandler{
		pluginwatcherapi.DevicePlugin: m.devices.GetWatcherHandler(),
		pluginwatcherapi.DRAPlugin:    m.claims.GetWatcherHandler(),
	}
}

func (m *manager) PrepareDynamicResources(ctx context.Context, pod *v1.Pod) error {
	return m.claims.PrepareResources(ctx, pod)
}

func (m *manager) UnprepareDynamicResources(ctx context.Context, pod *v1.Pod) error {
	return m.claims.UnprepareResources(ctx, pod)
}

func (m *manager) PodMightNeedToUnprepareResources(uid types.UID) bool {
	return m.claims.PodMightNeedToUnprepareResources(uid)
}

func (m *manager) GetResources(ctx context.Context, pod *v1.Pod, container *v1.Container) (*kubecontainer.RunContainerOptions, error) {
	opts := &kubecontainer.RunContainerOptions{}
	claimed, err := m.claims.GetResources(pod, container)
	if err != nil {
		return nil, err
	}
	opts.CDIDevices = claimed.CDIDevices
	dev, err := m.devices.GetDeviceRunContainerOptions(ctx, pod, container)
	if err != nil || dev == nil {
		return opts, err
	}
	opts.Devices, opts.Mounts, opts.Envs = dev.Devices, dev.Mounts, dev.Envs
	opts.Annotations, opts.CDIDevices = dev.Annotations, append(opts.CDIDevices, dev.CDIDevices...)
	return opts, nil
}
