package wire

import (
	"cmp"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// WriteNumatopology returns a Numatopology as Volcano's exporter writes it since v1.16. The object
// has the NUMA node, package and core of each CPU, the CPUs that no container has exclusively, and
// the containers that have the other CPUs. If the CPU manager's policy is not static, it lists no
// free CPUs.
func WriteNumatopology(n *Node) *nodeinfo.Numatopology {
	c := &n.Spec.Config
	out := &nodeinfo.Numatopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: nodeinfo.GroupVersion.String(), Kind: "Numatopology"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Annotations: map[string]string{nodeinfo.TimestampAnnotation: strconv.FormatInt(n.Report.Observed.Unix(), 10)}},
		Spec: nodeinfo.NumatopologySpec{
			Policies: map[string]string{
				nodeinfo.CPUManagerPolicy: cmp.Or(c.CPUManagerPolicy, "none"), nodeinfo.MemoryManagerPolicy: cmp.Or(c.MemoryManagerPolicy, "None"),
				nodeinfo.TopologyManagerPolicy: cmp.Or(c.TopologyManagerPolicy, "none"),
			},
			Resources: map[string]nodeinfo.ResourceInfo{"cpu": {Capacity: n.Spec.Machine.Online.Len()}},
			CPUDetail: cpuDetail(n.Spec.Machine),
		},
	}
	if c.CPUManagerPolicy != "static" {
		return out
	}
	free := n.Report.Snapshot.SharedCPUs
	out.Spec.Resources["cpu"] = nodeinfo.ResourceInfo{Allocatable: free.String(), Capacity: n.Spec.Machine.Online.Len()}
	if m, err := placement.NewModel(n.Spec.View, *c); err == nil {
		reserved := m.ReservedCPUs()
		out.Spec.ResReserved = map[string]string{"cpu": resource.NewQuantity(int64(reserved.Len()), resource.DecimalSI).String()}
	}
	for i := range n.Report.Snapshot.Pods {
		p := &n.Report.Snapshot.Pods[i]
		one := nodeinfo.PodAllocation{UID: p.UID}
		if i < len(n.Report.Pods) {
			one.Namespace, one.Name = n.Report.Pods[i].Namespace, n.Report.Pods[i].Name
		}
		for j := range p.Containers {
			if held := &p.Containers[j]; !held.CPUs.IsEmpty() {
				one.ContainerAllocations = append(one.ContainerAllocations, nodeinfo.ContainerAllocation{
					Name: held.Name, Allocations: map[string]string{"cpu": held.CPUs.String()},
				})
			}
		}
		if one.ContainerAllocations != nil {
			out.Spec.PodAllocations = append(out.Spec.PodAllocations, one)
		}
	}
	return out
}

// cpuDetail returns the NUMA node, package and core of each CPU of a machine.
func cpuDetail(m *topology.Machine) map[string]nodeinfo.CPUInfo {
	out := make(map[string]nodeinfo.CPUInfo, m.Online.Len())
	at := func(cpus *topology.CPUSet, tell func(*nodeinfo.CPUInfo)) {
		online := cpus.And(&m.Online)
		for id := range online.All() {
			info := out[strconv.Itoa(int(id))]
			tell(&info)
			out[strconv.Itoa(int(id))] = info
		}
	}
	at(&m.Online, func(*nodeinfo.CPUInfo) {})
	for i := range m.NUMANodes {
		at(&m.NUMANodes[i].CPUs, func(info *nodeinfo.CPUInfo) { info.NUMANodeID = int(m.NUMANodes[i].ID) })
	}
	for i := range m.Packages {
		at(&m.Packages[i].CPUs, func(info *nodeinfo.CPUInfo) { info.SocketID = int(m.Packages[i].ID) })
	}
	for i := range m.Cores {
		at(&m.Cores[i].CPUs, func(info *nodeinfo.CPUInfo) { info.CoreID = int(m.Cores[i].ID) })
	}
	return out
}
