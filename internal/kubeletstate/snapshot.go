package kubeletstate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Snapshot returns the content of the checkpoints in the engine's types. Pods and containers are
// ordered by UID and name. The files do not contain the order and the kinds of containers. So
// Snapshot treats the containers of a pod that have CPUs in common as init containers, unless the
// pod has pod-level assignments, and all others as ordinary containers. The device pool of a
// registered resource has its registered (healthy) devices and its assigned devices. Only assigned
// devices have NUMA nodes in the files. Snapshot returns an *Error if the files have an old format
// without pod UIDs, which a placement.Snapshot cannot represent.
func (s *State) Snapshot() (placement.Snapshot, error) {
	b := snapshotBuilder{pods: map[string]map[string]*placement.ContainerAllocation{}, wholes: map[string]*placement.Whole{}}
	if s.CPU != nil {
		if err := b.cpus(s.CPU); err != nil {
			return placement.Snapshot{}, err
		}
	}
	if s.Memory != nil {
		b.memory(s.Memory)
	}
	if s.Devices != nil {
		b.devices(s.Devices)
	}
	for _, uid := range slices.Sorted(maps.Keys(b.pods)) {
		pod := placement.PodAllocation{UID: uid, Whole: b.wholes[uid]}
		for _, name := range slices.Sorted(maps.Keys(b.pods[uid])) {
			pod.Containers = append(pod.Containers, *b.pods[uid][name])
		}
		b.out.Pods = append(b.out.Pods, pod)
	}
	return b.out, nil
}

type snapshotBuilder struct {
	out    placement.Snapshot
	pods   map[string]map[string]*placement.ContainerAllocation
	wholes map[string]*placement.Whole
}

func (b *snapshotBuilder) whole(uid string) *placement.Whole {
	if b.pods[uid] == nil {
		b.pods[uid] = map[string]*placement.ContainerAllocation{}
	}
	if b.wholes[uid] == nil {
		b.wholes[uid] = &placement.Whole{}
	}
	return b.wholes[uid]
}

func (b *snapshotBuilder) container(uid, name string) *placement.ContainerAllocation {
	if b.pods[uid] == nil {
		b.pods[uid] = map[string]*placement.ContainerAllocation{}
	}
	if b.pods[uid][name] == nil {
		b.pods[uid][name] = &placement.ContainerAllocation{Name: name}
	}
	return b.pods[uid][name]
}

func (b *snapshotBuilder) cpus(s *CPUState) error {
	if len(s.Legacy) > 0 {
		return file(CPUFile).err("entries", s.Legacy[0].Container, "the format of Kubernetes 1.17 or later, which names pods")
	}
	b.out.SharedCPUs = s.Shared
	for _, e := range s.Entries {
		b.container(e.PodUID, e.Container).CPUs = e.CPUs
	}
	for _, e := range s.PodEntries {
		b.whole(e.PodUID).CPUs = e.CPUs
	}
	for uid, containers := range b.pods {
		if b.wholes[uid] == nil {
			markReuse(containers)
		}
	}
	return nil
}

// markReuse marks containers of a pod that have CPUs in common as init containers, because later
// containers reuse the CPUs of init containers (cpusToReuse of pkg/kubelet/cm/cpumanager).
func markReuse(containers map[string]*placement.ContainerAllocation) {
	var once, twice topology.CPUSet
	for _, c := range containers {
		both := once.And(&c.CPUs)
		once, twice = once.Or(&c.CPUs), twice.Or(&both)
	}
	for _, c := range containers {
		if c.CPUs.Intersects(&twice) {
			c.Kind = placement.Init
		}
	}
}

func (b *snapshotBuilder) memory(s *MemoryState) {
	for i := range s.Nodes {
		b.out.Memory = append(b.out.Memory, s.Nodes[i].MemoryTable)
	}
	for _, e := range s.Entries {
		b.container(e.PodUID, e.Container).Memory = e.Blocks
	}
	for _, e := range s.PodEntries {
		b.whole(e.PodUID).Memory = append([]placement.MemoryBlock{}, e.Blocks...)
	}
}

func (b *snapshotBuilder) devices(s *DeviceState) {
	pools := map[string]map[string]placement.Device{}
	for resource, ids := range s.Registered {
		pools[resource] = map[string]placement.Device{}
		for _, id := range ids {
			pools[resource][id] = placement.Device{ID: id}
		}
	}
	for _, e := range s.Entries {
		held := placement.DeviceAllocation{Resource: e.Resource}
		for _, d := range e.Devices {
			held.IDs = append(held.IDs, d.ID)
			if pool := pools[e.Resource]; pool != nil {
				_, healthy := pool[d.ID]
				pool[d.ID] = placement.Device{ID: d.ID, NUMA: d.NUMA, HasTopology: d.NUMA != 0, Unhealthy: !healthy}
			}
		}
		c := b.container(e.PodUID, e.Container)
		c.Devices = append(c.Devices, held)
	}
	for _, resource := range slices.Sorted(maps.Keys(pools)) {
		pool := placement.DevicePool{Resource: resource, Preference: placement.UnknownPreference}
		for _, id := range slices.Sorted(maps.Keys(pools[resource])) {
			pool.Devices = append(pool.Devices, pools[resource][id])
		}
		b.out.Devices = append(b.out.Devices, pool)
	}
}

// View sets the memory of each NUMA node in view to the amount that the kubelet found when it
// started. The machine may differ now, if huge pages were reserved or memory was added or removed
// after the start. The error is an *Error.
func (s *MemoryState) View(view *placement.KubeletView) error {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		j := slices.IndexFunc(view.Nodes, func(v placement.ViewNode) bool { return v.ID == n.NUMA })
		if j < 0 {
			return file(MemoryFile).err(fmt.Sprintf("machineState[%d]", n.NUMA), n.NUMA, "a NUMA node of the machine")
		}
		if err := n.view(&view.Nodes[j]); err != nil {
			return err
		}
	}
	return nil
}

func (n *MemoryNode) view(node *placement.ViewNode) error {
	node.HugePages = nil
	for _, r := range n.Resources {
		if r.Resource == "memory" {
			node.MemoryBytes = n.Totals[r.Resource]
			continue
		}
		size, ok := hugePageBytes(r.Resource)
		if !ok {
			return file(MemoryFile).err(fmt.Sprintf("machineState[%d].memoryMap", n.NUMA), r.Resource, "memory or hugepages-SIZE")
		}
		node.HugePages = append(node.HugePages, topology.HugePages{PageBytes: size, Count: n.Totals[r.Resource] / size})
	}
	slices.SortFunc(node.HugePages, func(a, b topology.HugePages) int { return cmp.Compare(a.PageBytes, b.PageBytes) })
	return nil
}

// hugePageBytes reads the size in "hugepages-2Mi", which the kubelet writes as a power of two with
// its unit (k8s.io/component-helpers, corev1 HugePageResourceName).
func hugePageBytes(resource string) (uint64, bool) {
	text, ok := strings.CutPrefix(resource, "hugepages-")
	n, err := topology.ParseBytes(text)
	return n, ok && err == nil && n > 0
}
