package wire

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// PodName is a pod's namespace and name.
type PodName struct{ Namespace, Name string }

// Names of NodeResourceTopology attributes. Node Feature Discovery and resource-topology-exporter
// write them, and the plugin NodeResourceTopologyMatch reads them.
const (
	nrtPolicy      = "topologyManagerPolicy"
	nrtScope       = "topologyManagerScope"
	nrtFingerprint = "nodeTopologyPodsFingerprint"
)

// legacyPolicies has, by policy and scope, the values of the deprecated field topologyPolicies.
var legacyPolicies = map[[2]string]string{
	{"none", "container"}:             "None",
	{"none", "pod"}:                   "None",
	{"best-effort", "container"}:      "BestEffortContainerLevel",
	{"best-effort", "pod"}:            "BestEffortPodLevel",
	{"restricted", "container"}:       "RestrictedContainerLevel",
	{"restricted", "pod"}:             "RestrictedPodLevel",
	{"single-numa-node", "container"}: "SingleNUMANodeContainerLevel",
	{"single-numa-node", "pod"}:       "SingleNUMANodePodLevel",
}

// WriteNodeResourceTopology returns the total and free amounts of each NUMA node in the format of
// Node Feature Discovery and resource-topology-exporter. It includes CPUs if the CPU manager's
// policy is static, memory if the memory manager's policy is Static, and devices with a topology.
// Only exclusive CPUs count as used. The argument running has the pods on the node that have not
// ended. The object has their fingerprint. A reader compares it with the fingerprint of the pods
// that the reader knows, to find out whether the object is up to date.
func WriteNodeResourceTopology(n *Node, running []PodName) *nrt.NodeResourceTopology {
	policy, scope := cmp.Or(n.Spec.Config.TopologyManagerPolicy, "none"), cmp.Or(n.Spec.Config.TopologyManagerScope, "container")
	out := &nrt.NodeResourceTopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: nrt.GroupVersion.String(), Kind: "NodeResourceTopology"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Zones:      nrt.ZoneList{},
		Attributes: nrt.AttributeList{{Name: nrtPolicy, Value: policy}, {Name: nrtScope, Value: scope}, {Name: nrtFingerprint, Value: PodFingerprint(running)}},
	}
	if legacy, ok := legacyPolicies[[2]string{policy, scope}]; ok {
		out.TopologyPolicies = []string{legacy}
	}
	z := zoneWriter{n: n, held: heldDevices(&n.Report.Snapshot)}
	if m, err := placement.NewModel(n.Spec.View, n.Spec.Config); err == nil {
		z.reserved = m.ReservedCPUs()
	}
	for i := range n.Spec.Machine.NUMANodes {
		out.Zones = append(out.Zones, z.zone(&n.Spec.Machine.NUMANodes[i]))
	}
	return out
}

type zoneWriter struct {
	n        *Node
	reserved topology.CPUSet
	held     map[[2]string]bool // resource, id
}

func zoneName(id topology.NUMAID) string { return "node-" + strconv.Itoa(int(id)) }

func (z *zoneWriter) zone(node *topology.NUMANode) nrt.Zone {
	out := nrt.Zone{Name: zoneName(node.ID), Type: "Node"}
	for i, d := range node.Distances {
		out.Costs = append(out.Costs, nrt.CostInfo{Name: zoneName(z.n.Spec.Machine.NUMANodes[i].ID), Value: int64(d)})
	}
	if z.n.Spec.Config.CPUManagerPolicy == "static" {
		allocatable := node.CPUs.AndNot(&z.reserved)
		out.Resources = append(out.Resources, counts("cpu", node.CPUs.Len(), allocatable.Len(), allocatable.AndLen(&z.n.Report.Snapshot.SharedCPUs)))
	}
	out.Resources = append(out.Resources, z.memory(node)...)
	out.Resources = append(out.Resources, z.devices(node.ID)...)
	slices.SortFunc(out.Resources, func(a, b nrt.ResourceInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func counts(name string, capacity, allocatable, available int) nrt.ResourceInfo {
	return nrt.ResourceInfo{
		Name:        name,
		Capacity:    *resource.NewQuantity(int64(capacity), resource.DecimalSI),
		Allocatable: *resource.NewQuantity(int64(allocatable), resource.DecimalSI),
		Available:   *resource.NewQuantity(int64(available), resource.DecimalSI),
	}
}

func (z *zoneWriter) memory(node *topology.NUMANode) nrt.ResourceInfoList {
	var out nrt.ResourceInfoList
	for _, t := range z.n.Report.Snapshot.Memory {
		if t.NUMA != node.ID {
			continue
		}
		for _, a := range t.Resources {
			out = append(out, counts(a.Resource, int(z.capacity(node, a)), int(a.Allocatable), int(a.Free)))
		}
	}
	return out
}

// capacity returns the total of a kind of memory on the NUMA node in the kubelet's view.
func (z *zoneWriter) capacity(node *topology.NUMANode, a placement.MemoryAmounts) uint64 {
	total, pages := node.MemoryBytes, node.HugePages
	if v := viewNode(z.n.Spec.View, node.ID); v != nil {
		total, pages = v.MemoryBytes, v.HugePages
	}
	if a.Resource == "memory" {
		return total
	}
	for _, h := range pages {
		if a.Resource == "hugepages-"+resource.NewQuantity(int64(h.PageBytes), resource.BinarySI).String() {
			return h.PageBytes * h.Count
		}
	}
	return a.Allocatable
}

func (z *zoneWriter) devices(id topology.NUMAID) nrt.ResourceInfoList {
	var out nrt.ResourceInfoList
	for _, pool := range z.n.Report.Snapshot.Devices {
		capacity, allocatable, available := 0, 0, 0
		for _, d := range pool.Devices {
			if !d.NUMA.Has(id) {
				continue
			}
			capacity++
			if d.Unhealthy {
				continue
			}
			allocatable++
			if !z.held[[2]string{pool.Resource, d.ID}] {
				available++
			}
		}
		if capacity > 0 {
			out = append(out, counts(pool.Resource, capacity, allocatable, available))
		}
	}
	return out
}

func heldDevices(s *placement.Snapshot) map[[2]string]bool {
	out := map[[2]string]bool{}
	for _, p := range s.Pods {
		for _, c := range p.Containers {
			for _, d := range c.Devices {
				for _, id := range d.IDs {
					out[[2]string{d.Resource, id}] = true
				}
			}
		}
	}
	return out
}

// PodFingerprint returns the fingerprint of a set of pods in format 001 of the podfingerprint
// library. This is the 64-bit xxHash of the pods' hashes in ascending order. The hash of a pod is
// the xxHash of its name, seeded with the hash of its namespace.
func PodFingerprint(pods []PodName) string {
	hashes := make([]uint64, 0, len(pods))
	for _, p := range pods {
		d := xxhash.NewWithSeed(xxhash.Sum64String(p.Namespace))
		_, _ = d.WriteString(p.Name) // never fails
		hashes = append(hashes, d.Sum64())
	}
	slices.Sort(hashes)
	sum := xxhash.New()
	for _, h := range hashes {
		_, _ = sum.Write(binary.LittleEndian.AppendUint64(nil, h))
	}
	return "pfp0v001" + hex.EncodeToString(sum.Sum(nil))
}
