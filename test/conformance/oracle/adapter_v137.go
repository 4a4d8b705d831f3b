//go:build kubelet137

package oracle

import (
	"context"
	"time"
	_ "unsafe" // for go:linkname

	cadvisorapi "github.com/google/cadvisor/lib/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// What the managers are told about a machine. Since 1.37 these types are a module of their own.
type (
	cadvisorMachine   = cadvisorapi.MachineInfo
	cadvisorNode      = cadvisorapi.Node
	cadvisorCore      = cadvisorapi.Core
	cadvisorCache     = cadvisorapi.Cache
	cadvisorHugePages = cadvisorapi.HugePagesInfo
)

func (a asked) GetTopologyHints(l klog.Logger, pod *corev1.Pod, c *corev1.Container, o lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	a.k.pass()
	return a.HintProvider.GetTopologyHints(l, pod, c, o)
}

func (a asked) GetPodTopologyHints(l klog.Logger, pod *corev1.Pod, o lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	a.k.pass()
	return a.HintProvider.GetPodTopologyHints(l, pod, o)
}

func (a asked) Allocate(ctx context.Context, pod *corev1.Pod, c *corev1.Container, o lifecycle.Operation) error {
	a.k.pass()
	return a.HintProvider.Allocate(ctx, pod, c, o)
}

func newTopologyManager(s *settings) (topologymanager.Manager, error) {
	return topologymanager.NewManager(klog.Background(), s.info.Topology, s.topologyPolicy, s.topologyScope, s.topologyOpts)
}

func newCPUManager(s *settings, store topologymanager.Store) (cpumanager.Manager, error) {
	return cpumanager.NewManager(klog.Background(), s.cpuPolicy, s.cpuOptions, never, s.info, s.reservedCPUs, s.reservation, s.dir, store)
}

func newMemoryManager(s *settings, store topologymanager.Store) (memorymanager.Manager, error) {
	return memorymanager.NewManager(klog.Background(), s.memoryPolicy, s.info, s.reservation, s.reservedMemory, s.dir, store)
}

func newDeviceManager(s *settings, store topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return newManagerImpl(klog.Background(), s.socket(), s.info.Topology, store)
}

func addProvider(m topologymanager.Manager, p topologymanager.HintProvider) {
	m.AddHintProvider(klog.Background(), p)
}

// hints asks a manager for the hints of a pod's first container, as admission does.
func (k *kubelet) hints(p topologymanager.HintProvider, pod *corev1.Pod) {
	p.GetTopologyHints(klog.Background(), pod, &pod.Spec.Containers[0], lifecycle.AddOperation)
}

func (k *kubelet) updateDevices() { k.device.UpdateAllocatedDevices(klog.Background()) }

func (k *kubelet) askTopology(attrs *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	attrs.Operation = lifecycle.AddOperation
	return k.topology.Admit(context.Background(), attrs)
}

// affinity is the hint that the topology manager keeps for a container.
func (k *kubelet) affinity(uid, name string) topologymanager.TopologyHint {
	return k.topology.GetAffinity(klog.Background(), uid, name)
}

func (k *kubelet) startCPUManager() error {
	return k.cpu.Start(context.Background(), k.active, ready{}, noStatus{}, noRuntime{}, k.initialContainers())
}

func (k *kubelet) startMemoryManager() error {
	return k.memory.Start(context.Background(), k.active, ready{}, noStatus{}, noRuntime{}, k.initialContainers())
}

func (k *kubelet) startDeviceManager() error {
	return k.device.Start(klog.Background(), k.active, ready{}, k.initialContainers(), k.runningContainers())
}

func (k *kubelet) stopDeviceManager() error { return k.device.Stop(klog.Background()) }

func (k *kubelet) connect(p *plugin, devices []*pluginapi.Device) error {
	if err := k.device.PluginConnected(context.Background(), p.resource, p); err != nil {
		return err
	}
	k.device.PluginListAndWatchReceiver(klog.Background(), p.resource, &pluginapi.ListAndWatchResponse{Devices: devices})
	return nil
}

// preStart does what cm.internalContainerLifecycleImpl.PreStartContainer does.
func (k *kubelet) preStart(pod *corev1.Pod, c *corev1.Container, id string) {
	k.cpu.AddContainer(klog.Background(), pod, c, id)
	k.memory.AddContainer(klog.Background(), pod, c, id)
	k.topology.AddContainer(klog.Background(), pod, c, id)
}

// blocks is the memory that a container holds.
func (k *kubelet) blocks(uid, name string) []state.Block {
	return k.memory.GetMemory(klog.Background(), uid, name)
}

//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(klog.Logger, string, []cadvisorNode, topologymanager.Store) (*devicemanager.ManagerImpl, error)

// never is longer than any case takes: the CPU manager's reconciliation then runs once, at the
// start.
const never = 10000 * time.Hour
