package hollow

import (
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
)

// containerLifecycle does the work of pkg/kubelet/cm.internalContainerLifecycleImpl. Before a
// container is created, it sets the container's CPUs and NUMA nodes. When a container starts, it
// tells the managers. The Memory Manager then frees the memory of the pod's finished init
// containers.
type containerLifecycle struct{ m *manager }

var _ cm.InternalContainerLifecycle = containerLifecycle{}

func (m *manager) InternalContainerLifecycle(klog.Logger) cm.InternalContainerLifecycle {
	return containerLifecycle{m}
}

func (l containerLifecycle) PreCreateContainer(logger klog.Logger, pod *v1.Pod, c *v1.Container, cfg *runtimeapi.ContainerConfig) error {
	if cpus := l.m.cpus.GetCPUAffinity(string(pod.UID), c.Name); !cpus.IsEmpty() {
		cfg.Linux.Resources.CpusetCpus = cpus.String()
	}
	var nodes []string
	for _, id := range sets.List(l.m.memory.GetMemoryNUMANodes(logger, pod, c)) {
		nodes = append(nodes, strconv.Itoa(id))
	}
	if len(nodes) > 0 {
		cfg.Linux.Resources.CpusetMems = strings.Join(nodes, ",")
	}
	return nil
}

func (l containerLifecycle) PreStartContainer(logger klog.Logger, pod *v1.Pod, c *v1.Container, id string) error {
	l.m.cpus.AddContainer(logger, pod, c, id)
	l.m.memory.AddContainer(logger, pod, c, id)
	l.m.topology.AddContainer(logger, pod, c, id)
	return nil
}

func (l containerLifecycle) PostStopContainer(logger klog.Logger, id string) error {
	return l.m.topology.RemoveContainer(logger, id)
}

// The methods below provide the data for the PodResources API, as containerManagerImpl does.

// GetCPUs returns the CPUs that only this container uses. GetPodCPUs returns all CPUs of a pod if
// the kubelet assigns CPUs to the pod as a whole (spec.resources), and otherwise none.
func (m *manager) GetCPUs(pod *v1.Pod, c *v1.Container) []int64 {
	if m.cpus.GetResourceIsolationLevel(pod, c) != cmqos.ResourceIsolationContainer {
		return []int64{}
	}
	return int64s(m.cpus.GetExclusiveCPUs(string(pod.UID), c.Name).UnsortedList())
}

func (m *manager) GetPodCPUs(uid string) []int64 {
	return int64s(m.cpus.GetPodCPUs(uid).UnsortedList())
}

func (m *manager) GetAllocatableCPUs() []int64 {
	return int64s(m.cpus.GetAllocatableCPUs().UnsortedList())
}

func int64s(in []int) []int64 {
	out := make([]int64, len(in))
	for i, n := range in {
		out[i] = int64(n)
	}
	return out
}

func (m *manager) GetMemory(logger klog.Logger, pod *v1.Pod, c *v1.Container) []*podresourcesapi.ContainerMemory {
	if m.memory.GetResourceIsolationLevel(pod, c) != cmqos.ResourceIsolationContainer {
		return []*podresourcesapi.ContainerMemory{}
	}
	return containerMemory(m.memory.GetMemory(logger, string(pod.UID), c.Name))
}

func (m *manager) GetPodMemory(_ klog.Logger, uid string) []*podresourcesapi.ContainerMemory {
	return containerMemory(m.memory.GetPodMemory(uid))
}

func (m *manager) GetAllocatableMemory(logger klog.Logger) []*podresourcesapi.ContainerMemory {
	return containerMemory(m.memory.GetAllocatableMemory(logger))
}

func containerMemory(blocks []memorystate.Block) []*podresourcesapi.ContainerMemory {
	var out []*podresourcesapi.ContainerMemory
	for _, b := range blocks {
		topo := &podresourcesapi.TopologyInfo{}
		for _, id := range b.NUMAAffinity {
			topo.Nodes = append(topo.Nodes, &podresourcesapi.NUMANode{ID: int64(id)})
		}
		out = append(out, &podresourcesapi.ContainerMemory{MemoryType: string(b.Type), Size: b.Size, Topology: topo})
	}
	return out
}

func (m *manager) GetDevices(uid, container string) []*podresourcesapi.ContainerDevices {
	return containerDevices(m.devices.GetDevices(uid, container))
}

func (m *manager) GetAllocatableDevices(logger klog.Logger) []*podresourcesapi.ContainerDevices {
	return containerDevices(m.devices.GetAllocatableDevices(logger))
}

// containerDevices returns one entry per device and NUMA node. A device without a topology gets one
// entry. A device whose topology has no NUMA nodes gets no entry.
func containerDevices(all devicemanager.ResourceDeviceInstances) []*podresourcesapi.ContainerDevices {
	var out []*podresourcesapi.ContainerDevices
	for name, devices := range all {
		for id, d := range devices {
			entry := func(t *podresourcesapi.TopologyInfo) {
				out = append(out, &podresourcesapi.ContainerDevices{ResourceName: name, DeviceIds: []string{id}, Topology: t})
			}
			if d.GetTopology() == nil {
				entry(nil)
				continue
			}
			for _, n := range d.GetTopology().GetNodes() {
				entry(&podresourcesapi.TopologyInfo{Nodes: []*podresourcesapi.NUMANode{{ID: n.GetID()}}})
			}
		}
	}
	return out
}
