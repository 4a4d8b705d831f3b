//go:build kubelet133

package oracle

import (
	"time"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

func newCPUManager(s *settings, store topologymanager.Store) (cpumanager.Manager, error) {
	return cpumanager.NewManager(s.cpuPolicy, s.cpuOptions, never, s.info, s.reservedCPUs, s.reservation, s.dir, store)
}

func newMemoryManager(s *settings, store topologymanager.Store) (memorymanager.Manager, error) {
	return memorymanager.NewManager(s.memoryPolicy, s.info, s.reservation, s.reservedMemory, s.dir, store)
}

func newDeviceManager(s *settings, store topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return newManagerImpl(s.socket(), s.info.Topology, store)
}

func addProvider(m topologymanager.Manager, p topologymanager.HintProvider) {
	m.AddHintProvider(p)
}

func (k *kubelet) startCPUManager() error {
	return k.cpu.Start(k.active, ready{}, noStatus{}, noRuntime{}, k.initialContainers())
}

func (k *kubelet) startMemoryManager() error {
	return k.memory.Start(k.active, ready{}, noStatus{}, noRuntime{}, k.initialContainers())
}

func (k *kubelet) startDeviceManager() error {
	return k.device.Start(k.active, ready{}, k.initialContainers(), k.runningContainers())
}

func (k *kubelet) stopDeviceManager() error { return k.device.Stop() }

func (k *kubelet) connect(p *plugin, devices []*pluginapi.Device) error {
	if err := k.device.PluginConnected(p.resource, p); err != nil {
		return err
	}
	k.device.PluginListAndWatchReceiver(p.resource, &pluginapi.ListAndWatchResponse{Devices: devices})
	return nil
}

// preStart does what cm.internalContainerLifecycleImpl.PreStartContainer does.
func (k *kubelet) preStart(pod *corev1.Pod, c *corev1.Container, id string) {
	k.cpu.AddContainer(pod, c, id)
	k.memory.AddContainer(pod, c, id)
	k.topology.AddContainer(pod, c, id)
}

// blocks is the memory that a container holds.
func (k *kubelet) blocks(uid, name string) []state.Block {
	return k.memory.GetMemory(uid, name)
}

//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(string, []cadvisorNode, topologymanager.Store) (*devicemanager.ManagerImpl, error)

// never is longer than any case takes: the CPU manager's reconciliation then runs once, at the
// start.
const never = 10000 * time.Hour
