//go:build kube134

package oracle

import (
	"context"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

func newCPUManager(s *settings, store topologymanager.Store) (cpumanager.Manager, error) {
	return cpumanager.NewManager(s.cpuPolicy, s.cpuOptions, never, s.info, s.reservedCPUs, s.reservation, s.dir, store)
}

func newMemoryManager(s *settings, store topologymanager.Store) (memorymanager.Manager, error) {
	return memorymanager.NewManager(context.Background(), s.memoryPolicy, s.info, s.reservation, s.reservedMemory, s.dir, store)
}

func newDeviceManager(s *settings, store topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return newManagerImpl(s.socket(), s.info.Topology, store)
}

func addProvider(m topologymanager.Manager, p topologymanager.HintProvider) {
	m.AddHintProvider(p)
}

func (m *managers) startCPUManager(pods *podList) error {
	return m.cpu.Start(pods.active, ready{}, noStatus{}, noRuntime{}, pods.initialContainers())
}

func (m *managers) startMemoryManager(pods *podList) error {
	return m.memory.Start(context.Background(), pods.active, ready{}, noStatus{}, noRuntime{}, pods.initialContainers())
}

func (m *managers) startDeviceManager(pods *podList) error {
	return m.device.Start(pods.active, ready{}, pods.initialContainers(), pods.runningContainers())
}

func (m *managers) stopDeviceManager() error { return m.device.Stop() }

func (m *managers) connect(p *plugin, devices []*pluginapi.Device) error {
	if err := m.device.PluginConnected(p.resource, p); err != nil {
		return err
	}
	m.device.PluginListAndWatchReceiver(p.resource, &pluginapi.ListAndWatchResponse{Devices: devices})
	return nil
}

// preStart acts as cm.internalContainerLifecycleImpl.PreStartContainer.
func (m *managers) preStart(pod *corev1.Pod, c *corev1.Container, id string) {
	m.cpu.AddContainer(pod, c, id)
	m.memory.AddContainer(context.Background(), pod, c, id)
	m.track(pod, c, id)
}

//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(string, []cadvisorNode, topologymanager.Store) (*devicemanager.ManagerImpl, error)
