package hollow

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	pluginwatcherapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	plugincache "k8s.io/kubernetes/pkg/kubelet/pluginmanager/cache"
)

// claims is the kubelet's own manager of ResourceClaims. DRA drivers register in the directory
// Dir.Registry, as on a real node, and prepare the claims of the node's pods.
type claims struct{ *dra.Manager }

func newClaims(dir Dir, client clientset.Interface) (claims, error) {
	m, err := dra.NewManager(klog.Background(), client, dir.Root())
	if err != nil {
		return claims{}, fmt.Errorf("DRA manager: %w", err)
	}
	return claims{m}, nil
}

func (c claims) start(ctx context.Context, active cm.ActivePodsFunc, node cm.GetNodeFunc, ready config.SourcesReady) error {
	if err := c.Start(ctx, dra.ActivePodsFunc(active), dra.GetNodeFunc(node), ready); err != nil {
		return fmt.Errorf("start DRA manager: %w", err)
	}
	return nil
}

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
