package wire

import (
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// writer writes NodeTopology objects; its methods return *FieldErrors about the object.
type writer struct{ fieldErrors }

func (w writer) spec(n *NodeSpec) (v1alpha1.NodeTopologySpec, error) {
	bare := *n.Machine // without devices, because the first release cannot read all of their attributes
	bare.Devices, bare.Links = nil, nil
	s := v1alpha1.NodeTopologySpec{
		Machine:        bare.String(),
		Devices:        n.Machine.DeviceString(),
		Authority:      n.Authority,
		KubeletVersion: n.KubeletVersion,
		CPUManager: v1alpha1.CPUManager{
			Policy:           n.Config.CPUManagerPolicy,
			Options:          optionsOf[v1alpha1.OptionValue](n.Config.CPUManagerPolicyOptions),
			ReservedCPUs:     v1alpha1.CPUList(n.Config.ReservedSystemCPUs),
			ReservedMilliCPU: n.Config.ReservedMilliCPU,
		},
		TopologyManager: v1alpha1.TopologyManager{
			Policy:  n.Config.TopologyManagerPolicy,
			Scope:   n.Config.TopologyManagerScope,
			Options: optionsOf[v1alpha1.OptionValue](n.Config.TopologyManagerPolicyOptions),
		},
		Defaults:     writeDefaults(&n.Config),
		FeatureGates: n.Config.FeatureGates,
	}
	if n.Koordlet {
		s.Enforcer = v1alpha1.EnforcerKoordlet
	}
	var err error
	if s.MemoryManager, err = w.memoryManager(&n.Config); err != nil {
		return s, err
	}
	s.KubeletView, err = w.view(n)
	return s, err
}

func (w writer) memoryManager(c *placement.Config) (v1alpha1.MemoryManager, error) {
	at := field.NewPath("spec", "memoryManager")
	out := v1alpha1.MemoryManager{Policy: c.MemoryManagerPolicy}
	var err error
	if out.NodeReserved, err = w.amounts(at.Child("nodeReserved"), c.NodeReserved); err != nil {
		return out, err
	}
	for i, r := range c.ReservedMemory {
		limits, err := w.amounts(at.Child("reserved").Index(i).Child("limits"), r.Limits)
		if err != nil {
			return out, err
		}
		out.Reserved = append(out.Reserved, v1alpha1.ReservedMemory{NUMA: v1alpha1.NUMAID(r.NUMA), Limits: limits})
	}
	return out, nil
}

func (w writer) amounts(at *field.Path, m map[string]uint64) (map[string]v1alpha1.Bytes, error) {
	if m == nil {
		return nil, nil
	}
	out := make(map[string]v1alpha1.Bytes, len(m))
	for k, v := range m {
		b, err := w.bytes(at.Key(k), v)
		if err != nil {
			return nil, err
		}
		out[k] = b
	}
	return out, nil
}

// bytes returns an error if an int64 cannot hold the amount. Such an amount comes from an underflow
// in the kubelet (allocatable memory below zero, pkg/kubelet/cm/memorymanager/policy_static.go).
func (w writer) bytes(at *field.Path, v uint64) (v1alpha1.Bytes, error) {
	if v > math.MaxInt64 {
		return 0, w.at(at, v, "an amount below 2^63 bytes")
	}
	return v1alpha1.Bytes(v), nil
}

// view lists the differences between n.View and the view that is computed from n.Machine.
func (w writer) view(n *NodeSpec) (*v1alpha1.KubeletView, error) {
	at := field.NewPath("spec", "kubeletView")
	want, err := placement.ViewOf(n.Machine)
	if err != nil {
		return nil, w.at(field.NewPath("spec", "machine"), n.Machine.String(), "a machine that a kubelet can run on: "+err.Error())
	}
	if n.View == nil || reflect.DeepEqual(n.View, want) {
		return nil, nil
	}
	out := &v1alpha1.KubeletView{}
	if n.View.NumCores != want.NumCores {
		v := int32(n.View.NumCores)
		out.NumCores, want.NumCores = &v, n.View.NumCores
	}
	if n.View.NumSockets != want.NumSockets {
		v := int32(n.View.NumSockets)
		out.NumSockets, want.NumSockets = &v, n.View.NumSockets
	}
	for i := range n.View.Nodes {
		got := &n.View.Nodes[i]
		exp := viewNode(want, got.ID)
		if exp == nil || got.MemoryBytes == exp.MemoryBytes && slices.Equal(got.HugePages, exp.HugePages) {
			continue
		}
		m, err := w.viewMemory(at.Child("memory"), got)
		if err != nil {
			return nil, err
		}
		out.Memory = append(out.Memory, m)
		exp.MemoryBytes, exp.HugePages = got.MemoryBytes, got.HugePages
	}
	if !reflect.DeepEqual(n.View, want) {
		return nil, w.at(at, "cores, distances or nodes that differ from the machine's", "a view that differs from the machine only in memory, huge pages, and the numbers of cores and sockets")
	}
	return out, nil
}

func (w writer) viewMemory(at *field.Path, n *placement.ViewNode) (v1alpha1.ViewMemory, error) {
	b, err := w.bytes(at.Child("bytes"), n.MemoryBytes)
	out := v1alpha1.ViewMemory{NUMA: v1alpha1.NUMAID(n.ID), Bytes: b}
	for _, h := range n.HugePages {
		if h.PageBytes > math.MaxInt64 || h.Count > math.MaxInt64 {
			return out, w.at(at.Child("hugePages"), h, "sizes and counts below 2^63")
		}
		out.HugePages = append(out.HugePages, v1alpha1.HugePages{PageBytes: int64(h.PageBytes), Count: int64(h.Count)})
	}
	return out, err
}

func (w writer) status(r *Report) (v1alpha1.NodeTopologyStatus, error) {
	at := field.NewPath("status")
	s := v1alpha1.NodeTopologyStatus{
		Sequence:     r.Sequence,
		ObservedTime: metav1.NewMicroTime(r.Observed),
		SharedCPUs:   v1alpha1.CPUList(r.Snapshot.SharedCPUs.String()),
		Devices:      writePools(r.Snapshot.Devices),
		Conditions:   r.Conditions,
	}
	for i := range r.Snapshot.Memory {
		t, err := w.table(at.Child("memory").Index(i), &r.Snapshot.Memory[i])
		if err != nil {
			return s, err
		}
		s.Memory = append(s.Memory, t)
	}
	for i := range r.Snapshot.Pods {
		var more ReportedPod
		if i < len(r.Pods) {
			more = r.Pods[i]
		}
		p, err := w.pod(at.Child("pods").Index(i), &r.Snapshot.Pods[i], &more)
		if err != nil {
			return s, err
		}
		s.Pods = append(s.Pods, p)
	}
	return s, nil
}

func (w writer) table(at *field.Path, t *placement.MemoryTable) (v1alpha1.MemoryTable, error) {
	out := v1alpha1.MemoryTable{NUMA: v1alpha1.NUMAID(t.NUMA), Assignments: int32(t.Assignments), Resources: []v1alpha1.MemoryAmounts{}}
	if t.Cells != topology.NewNUMASet(t.NUMA) {
		out.Cells = v1alpha1.NUMAList(t.Cells.String())
	}
	for i, a := range t.Resources {
		if a.Allocatable > math.MaxInt64 || a.Reserved > a.Allocatable || a.Free != a.Allocatable-a.Reserved {
			return out, w.at(at.Child("resources").Index(i), a, "reserved + free = allocatable, below 2^63 bytes")
		}
		out.Resources = append(out.Resources, v1alpha1.MemoryAmounts{
			Resource: v1alpha1.ResourceName(a.Resource), Allocatable: v1alpha1.Bytes(a.Allocatable),
			Reserved: v1alpha1.Bytes(a.Reserved),
		})
	}
	return out, nil
}

// maxGroup is the maximum number of devices in one group according to the schema. A pool with more
// devices is divided into several groups: plugins for shared resources offer thousands of devices.
const maxGroup = 1024

func writePools(pools []placement.DevicePool) []v1alpha1.DevicePool {
	names := [...]v1alpha1.Preference{placement.NoPreference: "", placement.SortedPreference: v1alpha1.PreferenceSorted, placement.UnknownPreference: v1alpha1.PreferenceUnknown, placement.NVIDIAPreference: v1alpha1.PreferenceNVIDIA}
	var out []v1alpha1.DevicePool
	for _, p := range pools {
		pool := v1alpha1.DevicePool{Resource: v1alpha1.ResourceName(p.Resource), Groups: []v1alpha1.DeviceGroup{}}
		if int(p.Preference) < len(names) {
			pool.Preference = names[p.Preference]
		}
		if p.Decided {
			pool.DecidedBy = v1alpha1.AuthorityBerth
		}
		type key struct {
			numa                   topology.NUMASet
			hasTopology, unhealthy bool
		}
		index := map[key]int{}
		for _, d := range p.Devices {
			k := key{d.NUMA, d.HasTopology, d.Unhealthy}
			i, ok := index[k]
			if !ok || len(pool.Groups[i].IDs) == maxGroup {
				i = len(pool.Groups)
				index[k] = i
				g := v1alpha1.DeviceGroup{Unhealthy: d.Unhealthy}
				if d.HasTopology {
					list := v1alpha1.NUMAList(d.NUMA.String())
					g.NUMA = &list
				}
				pool.Groups = append(pool.Groups, g)
			}
			pool.Groups[i].IDs = append(pool.Groups[i].IDs, v1alpha1.DeviceID(d.ID))
			pool.Groups[i].Addresses = append(pool.Groups[i].Addresses, v1alpha1.PCIAddress(d.Address))
		}
		for i := range pool.Groups {
			if !slices.ContainsFunc(pool.Groups[i].Addresses, func(a v1alpha1.PCIAddress) bool { return a != "" }) {
				pool.Groups[i].Addresses = nil
			}
		}
		out = append(out, pool)
	}
	return out
}

func (w writer) pod(at *field.Path, p *placement.PodAllocation, more *ReportedPod) (v1alpha1.PodAllocation, error) {
	out := v1alpha1.PodAllocation{UID: p.UID, State: more.State, Generation: p.Generation}
	if more.Name != "" {
		out.Pod = more.Namespace + "/" + more.Name
	}
	if whole := p.Whole; whole != nil {
		held, err := w.container(at.Child("whole"), &placement.ContainerAllocation{CPUs: whole.CPUs, Memory: whole.Memory})
		if err != nil {
			return out, err
		}
		out.Whole = &held
	}
	for i := range p.Containers {
		c, err := w.container(at.Child("containers").Index(i), &p.Containers[i])
		if err != nil {
			return out, err
		}
		out.Containers = append(out.Containers, c)
	}
	return out, nil
}

func (w writer) container(at *field.Path, c *placement.ContainerAllocation) (v1alpha1.ContainerAllocation, error) {
	out := v1alpha1.ContainerAllocation{Name: c.Name, CPUs: v1alpha1.CPUList(c.CPUs.String()), Devices: writeDevices(c.Devices)}
	if int(c.Kind) >= len(kindNames) {
		return out, w.at(at.Child("kind"), c.Kind, "a known kind of container")
	}
	out.Kind = kindNames[c.Kind]
	if int(c.Exclusive) < len(exclusiveNames) {
		out.Exclusive = v1alpha1.Exclusive(exclusiveNames[c.Exclusive])
	}
	for _, s := range c.Shares {
		out.Shares = append(out.Shares, v1alpha1.CPUShare{NUMA: v1alpha1.NUMAID(s.NUMA), MilliCPU: s.MilliCPU})
	}
	for i, b := range c.Memory {
		bytes, err := w.bytes(at.Child("memory").Index(i), b.Bytes)
		if err != nil {
			return out, err
		}
		size := resource.NewQuantity(int64(bytes), resource.BinarySI)
		out.Memory = append(out.Memory, v1alpha1.MemoryBlock(b.Resource+"@"+b.NUMA.String()+"="+size.String()))
	}
	return out, nil
}

func writeDevices(devices []placement.DeviceAllocation) []v1alpha1.DeviceAllocation {
	var out []v1alpha1.DeviceAllocation
	for _, d := range devices {
		a := v1alpha1.DeviceAllocation{Resource: v1alpha1.ResourceName(d.Resource)}
		for _, id := range d.IDs {
			a.IDs = append(a.IDs, v1alpha1.DeviceID(id))
		}
		slices.Sort(a.IDs)
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b v1alpha1.DeviceAllocation) int {
		return strings.Compare(string(a.Resource), string(b.Resource))
	})
	return out
}
