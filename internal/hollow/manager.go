package hollow

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubecadvisor "k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cputopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/resourceupdates"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/cpuset"
)

// manager is the container manager of a hollow node. It has the genuine Topology, Device, DRA, CPU
// and Memory Managers. It builds, orders and starts them as pkg/kubelet/cm.containerManagerImpl
// does, without cgroups. The methods that this package does not define come from the kubelet's
// stub.
type manager struct {
	cm.ContainerManager // the stub

	node     cm.NodeConfig
	capacity v1.ResourceList

	topology topologymanager.Manager
	devices  *devicemanager.ManagerImpl
	cpus     cpumanager.Manager
	memory   memorymanager.Manager
	// claims is the kubelet's own manager of ResourceClaims. DRA drivers register in the directory
	// Dir.Registry, as on a real node, and prepare the claims of the node's pods.
	claims *dra.Manager

	// started is closed when the managers run and device plugins may register.
	started chan struct{}
}

var _ cm.ContainerManager = &manager{}

func newManager(dir Dir, name string, cfg *kubeletconfig.KubeletConfiguration, info *cadvisorapi.MachineInfo) (*manager, error) {
	node, err := nodeConfig(dir, name, cfg, info)
	if err != nil {
		return nil, err
	}
	m := &manager{
		ContainerManager: cm.NewStubContainerManager(),
		node:             *node,
		capacity:         kubecadvisor.CapacityFromMachineInfo(info),
		started:          make(chan struct{}),
	}
	m.capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(fsBytes, resource.BinarySI)
	if err := m.validateAllocatable(); err != nil {
		return nil, err
	}
	return m, m.build(dir, info)
}

// build creates the managers in the order of cm.NewContainerManager: topology, devices, CPUs,
// memory. The Topology Manager asks the other managers for hints in the same order.
func (m *manager) build(dir Dir, info *cadvisorapi.MachineInfo) (err error) {
	logger, node := klog.Background(), &m.node
	m.topology, err = topologymanager.NewManager(logger, info.Topology, node.TopologyManagerPolicy, node.TopologyManagerScope, node.TopologyManagerPolicyOptions)
	if err != nil {
		return fmt.Errorf("topology manager: %w", err)
	}
	m.devices, err = newDeviceManager(logger, filepath.Join(dir.DevicePlugins(), "kubelet.sock"), info.Topology, m.topology)
	if err != nil {
		return fmt.Errorf("device manager: %w", err)
	}
	m.topology.AddHintProvider(logger, m.devices)
	m.cpus, err = cpumanager.NewManager(logger, node.CPUManagerPolicy, node.CPUManagerPolicyOptions, node.CPUManagerReconcilePeriod,
		info, node.ReservedSystemCPUs, m.GetNodeAllocatableReservation(), dir.Root(), m.topology)
	if err != nil {
		return fmt.Errorf("CPU manager: %w", err)
	}
	m.topology.AddHintProvider(logger, m.cpus)
	m.memory, err = memorymanager.NewManager(logger, node.MemoryManagerPolicy, info, m.GetNodeAllocatableReservation(),
		node.MemoryManagerReservedMemory, dir.Root(), m.topology)
	if err != nil {
		return fmt.Errorf("memory manager: %w", err)
	}
	m.topology.AddHintProvider(logger, m.memory)
	return nil
}

// nodeConfig translates the configuration as cmd/kubelet/app.run does.
func nodeConfig(dir Dir, name string, cfg *kubeletconfig.KubeletConfiguration, info *cadvisorapi.MachineInfo) (*cm.NodeConfig, error) {
	reserved, err := reservedCPUs(cfg.ReservedSystemCPUs, info)
	if err != nil {
		return nil, err
	}
	reserveCPUs(cfg, reserved.Size())
	kube, err := resourceList("kubeReserved", cfg.KubeReserved)
	if err != nil {
		return nil, err
	}
	system, err := resourceList("systemReserved", cfg.SystemReserved)
	if err != nil {
		return nil, err
	}
	thresholds, err := eviction.ParseThresholdConfig(nil, cfg.EvictionHard, nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("KubeletConfiguration: evictionHard: %w", err)
	}
	return &cm.NodeConfig{
		NodeName:       types.NodeName(name),
		KubeletRootDir: dir.Root(),
		NodeAllocatableConfig: cm.NodeAllocatableConfig{
			EnforceNodeAllocatable: sets.New[string](),
			KubeReserved:           kube,
			SystemReserved:         system,
			ReservedSystemCPUs:     reserved,
			HardEvictionThresholds: thresholds,
		},
		CPUManagerPolicy:             cfg.CPUManagerPolicy,
		CPUManagerPolicyOptions:      cfg.CPUManagerPolicyOptions,
		CPUManagerReconcilePeriod:    cfg.CPUManagerReconcilePeriod.Duration,
		MemoryManagerPolicy:          cfg.MemoryManagerPolicy,
		MemoryManagerReservedMemory:  cfg.ReservedMemory,
		TopologyManagerPolicy:        cfg.TopologyManagerPolicy,
		TopologyManagerScope:         cfg.TopologyManagerScope,
		TopologyManagerPolicyOptions: cfg.TopologyManagerPolicyOptions,
	}, nil
}

func reservedCPUs(list string, info *cadvisorapi.MachineInfo) (cpuset.CPUSet, error) {
	if list == "" {
		return cpuset.New(), nil
	}
	topo, err := cputopology.Discover(klog.Background(), info)
	if err != nil {
		return cpuset.CPUSet{}, fmt.Errorf("discover CPUs: %w", err)
	}
	set, err := cpuset.Parse(list)
	if err != nil {
		return cpuset.CPUSet{}, fmt.Errorf("KubeletConfiguration: reservedSystemCPUs %q: %w", list, err)
	}
	if all := topo.CPUDetails.CPUs(); !set.IsSubsetOf(all) {
		return cpuset.CPUSet{}, fmt.Errorf("KubeletConfiguration: reservedSystemCPUs %q: want a subset of %s", list, all)
	}
	return set, nil
}

// Start starts the managers in the order of containerManagerImpl.Start. The runtime starts with the
// process, so there are no earlier containers that the managers must know.
func (m *manager) Start(ctx context.Context, _ *v1.Node, active cm.ActivePodsFunc, node cm.GetNodeFunc, ready config.SourcesReady,
	statuses status.PodStatusProvider, runtime internalapi.RuntimeService, _ bool) error {
	if err := m.claims.Start(ctx, dra.ActivePodsFunc(active), dra.GetNodeFunc(node), ready); err != nil {
		return fmt.Errorf("start DRA manager: %w", err)
	}
	containers := containermap.NewContainerMap()
	if err := m.cpus.Start(ctx, cpumanager.ActivePodsFunc(active), ready, statuses, runtime, containers.Clone()); err != nil {
		return fmt.Errorf("start CPU manager: %w", err)
	}
	if err := m.memory.Start(ctx, memorymanager.ActivePodsFunc(active), ready, statuses, runtime, containers.Clone()); err != nil {
		return fmt.Errorf("start memory manager: %w", err)
	}
	if err := m.devices.Start(klog.FromContext(ctx), devicemanager.ActivePodsFunc(active), ready, containers.Clone(), sets.New[string]()); err != nil {
		return fmt.Errorf("start device manager: %w", err)
	}
	close(m.started)
	return nil
}

func (m *manager) GetNodeConfig() cm.NodeConfig { return m.node }

func (m *manager) GetAllocateResourcesPodAdmitHandler(klog.Logger) lifecycle.PodAdmitHandler {
	return m.topology
}

func (m *manager) UpdatePluginResources(node *schedulerframework.NodeInfo, attrs *lifecycle.PodAdmitAttributes) error {
	return m.devices.UpdatePluginResources(node, attrs)
}

func (m *manager) GetDevicePluginResourceCapacity(logger klog.Logger) (v1.ResourceList, v1.ResourceList, []string) {
	return m.devices.GetCapacity(logger)
}

func (m *manager) ShouldResetExtendedResourceCapacity() bool {
	return m.devices.ShouldResetExtendedResourceCapacity()
}

func (m *manager) UpdateAllocatedResourcesStatus(logger klog.Logger, pod *v1.Pod, s *v1.PodStatus) {
	m.devices.UpdateAllocatedResourcesStatus(logger, pod, s)
}

func (m *manager) UpdateAllocatedDevices(logger klog.Logger) {
	m.devices.UpdateAllocatedDevices(logger)
}

func (m *manager) Updates() <-chan resourceupdates.Update { return m.devices.Updates() }

func (m *manager) PodHasExclusiveCPUs(logger klog.Logger, pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if m.ContainerHasExclusiveCPUs(logger, pod, &list[i]) {
				return true
			}
		}
	}
	return false
}

func (m *manager) ContainerHasExclusiveCPUs(_ klog.Logger, pod *v1.Pod, c *v1.Container) bool {
	return !m.cpus.GetExclusiveCPUs(string(pod.UID), c.Name).IsEmpty()
}

func (m *manager) GetCapacity(klog.Logger, bool) v1.ResourceList { return m.capacity }

// GetNodeAllocatableReservation returns kubeReserved + systemReserved + the hard eviction threshold
// for each resource of the node, as containerManagerImpl does.
func (m *manager) GetNodeAllocatableReservation() v1.ResourceList {
	evictions := m.evictionReservation()
	result := v1.ResourceList{}
	for name := range m.capacity {
		sum := resource.NewQuantity(0, resource.DecimalSI)
		for _, part := range []v1.ResourceList{m.node.SystemReserved, m.node.KubeReserved, evictions} {
			sum.Add(part[name])
		}
		if !sum.IsZero() {
			result[name] = *sum
		}
	}
	return result
}

func (m *manager) evictionReservation() v1.ResourceList {
	signals := map[evictionapi.Signal]v1.ResourceName{
		evictionapi.SignalMemoryAvailable: v1.ResourceMemory,
		evictionapi.SignalNodeFsAvailable: v1.ResourceEphemeralStorage,
	}
	list := v1.ResourceList{}
	for _, t := range m.node.HardEvictionThresholds {
		name, ok := signals[t.Signal]
		if !ok || t.Operator != evictionapi.OpLessThan {
			continue
		}
		capacity := m.capacity[name]
		list[name] = *evictionapi.GetThresholdQuantity(t.Value, &capacity)
	}
	return list
}

// GetNodeAllocatableAbsolute returns the capacity minus kubeReserved and systemReserved.
func (m *manager) GetNodeAllocatableAbsolute() v1.ResourceList {
	result := v1.ResourceList{}
	for name, q := range m.capacity {
		value := q.DeepCopy()
		value.Sub(m.node.SystemReserved[name])
		value.Sub(m.node.KubeReserved[name])
		if value.Sign() < 0 {
			value.Set(0)
		}
		result[name] = value
	}
	return result
}

func (m *manager) validateAllocatable() error {
	for name, reserved := range m.GetNodeAllocatableReservation() {
		if capacity := m.capacity[name]; reserved.Cmp(capacity) > 0 {
			return fmt.Errorf("KubeletConfiguration: kubeReserved, systemReserved and evictionHard reserve %s of %s: want at most the capacity %s",
				reserved.String(), name, capacity.String())
		}
	}
	return nil
}

// waitStarted returns when device plugins may register. It returns an error if ctx or the limit
// ends first.
func (m *manager) waitStarted(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-m.started:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the kubelet has not started its container manager: %w", ctx.Err())
	}
}
