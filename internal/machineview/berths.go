package machineview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Berths has the data about pods that a drawing of a machine shows: the resources that each pod
// has, and the names of the pods.
type Berths struct {
	// Title is the title of the drawing. Facts are additional lines below the title, or "".
	Title, Facts string
	// Snapshot has the free resources, and the resources that are assigned to pods.
	Snapshot placement.Snapshot
	// Reserved are the CPUs that the kubelet reserves for the system.
	Reserved topology.CPUSet
	// Free is the number of available CPUs on each NUMA node. It is nil if all shared CPUs are
	// available.
	Free map[topology.NUMAID]int
	// Pinning means that the node's CPU manager assigns exclusive CPUs.
	Pinning bool
	// Tenants has the names of pods in the snapshot. For a pod without a Tenant, the drawing shows
	// the UID.
	Tenants []Tenant
}

// Tenant is a pod with its namespace and name.
type Tenant struct {
	UID string
	// Name is "namespace/name".
	Name string
	// Note is a short text about the pod, like "in flight", or "".
	Note string
	// Held means that a Reservation holds the resources for future pods.
	Held bool
}

// berth has the exclusive resources of one pod.
type berth struct {
	tag        string // "A", "B", ..., "AA"
	class      string // its colour and texture
	uid        string
	name, note string
	held       bool // a Reservation holds these resources for future pods
	cpus       topology.CPUSet
	memory     []placement.MemoryBlock
	devices    []placement.DeviceAllocation
	containers map[topology.CPUID]string // the container of each CPU
}

// The numbers of colours and textures of berths. After eight berths the colours repeat with another
// texture; after 24 berths the textures repeat too. One of the textures is plain.
const (
	berthColours  = 8
	berthTextures = 3
)

// occupancy has the berths of a machine, and finds the berth of a CPU and of a device.
type occupancy struct {
	*Berths
	berths []*berth
	// held is the number of berths that Reservations hold.
	held int
	// sharing is the number of pods without exclusive resources.
	sharing int
	cpu     map[topology.CPUID]*berth
	device  map[[2]string]*berth // by resource and id
	// pci has the berths of devices by PCI address, for plugins that use the address as the
	// device's id.
	pci map[string]*berth
}

func newOccupancy(b *Berths) *occupancy {
	o := &occupancy{Berths: b, cpu: map[topology.CPUID]*berth{}, device: map[[2]string]*berth{}, pci: map[string]*berth{}}
	for i := range b.Snapshot.Pods {
		one := berthOf(&b.Snapshot.Pods[i])
		if one.cpus.IsEmpty() && len(one.memory) == 0 && len(one.devices) == 0 {
			o.sharing++
			continue
		}
		n := len(o.berths)
		if i := slices.IndexFunc(b.Tenants, func(t Tenant) bool { return t.UID == one.uid }); i >= 0 {
			one.name, one.note, one.held = b.Tenants[i].Name, b.Tenants[i].Note, b.Tenants[i].Held
		}
		one.tag, one.class = tagOf(n), fmt.Sprintf("p%d", n%berthColours)
		if one.held {
			one.class += " held"
			o.held++
		}
		if texture := n / berthColours % berthTextures; texture > 0 {
			one.class += fmt.Sprintf(" t%d", texture)
		}
		o.add(one)
	}
	return o
}

// idle reports whether a CPU is free but unavailable, because a pod requires that other pods use no
// CPU of its cores or NUMA nodes.
func (o *occupancy) idle(id topology.CPUID) bool {
	return o.Free != nil && o.cpu[id] == nil && !o.Reserved.Has(id) && !o.Snapshot.SharedCPUs.Has(id)
}

func (o *occupancy) add(one *berth) {
	o.berths = append(o.berths, one)
	for id := range one.cpus.All() {
		o.cpu[id] = one
	}
	for _, d := range one.devices {
		for _, id := range d.IDs {
			o.device[[2]string{d.Resource, id}] = one
			o.pci[id] = one
		}
	}
}

// berthOf adds up the resources of a pod's containers.
func berthOf(p *placement.PodAllocation) *berth {
	out := &berth{uid: p.UID, name: p.UID, cpus: p.CPUs(), containers: map[topology.CPUID]string{}}
	for b := range p.Blocks() {
		out.addMemory(*b)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		for id := range c.CPUs.All() {
			out.containers[id] = c.Name
		}
		for _, d := range c.Devices {
			if len(d.IDs) > 0 {
				out.devices = append(out.devices, d)
			}
		}
	}
	return out
}

// addMemory adds a block to the earlier block of the same kind on the same NUMA nodes. It skips a
// block without bytes, whose memory a later container of the pod has reused.
func (b *berth) addMemory(m placement.MemoryBlock) {
	if m.Bytes == 0 {
		return
	}
	for i := range b.memory {
		if b.memory[i].Resource == m.Resource && b.memory[i].NUMA == m.NUMA {
			b.memory[i].Bytes += m.Bytes
			return
		}
	}
	b.memory = append(b.memory, m)
}

// tagOf returns the n-th of the tags A, B, ..., Z, AA, AB, ...
func tagOf(n int) string {
	tag := string(rune('A' + n%26))
	for n = n/26 - 1; n >= 0; n = n/26 - 1 {
		tag = string(rune('A'+n%26)) + tag
	}
	return tag
}

// letters is the length of the longest tag.
func (o *occupancy) letters() int { return len(tagOf(max(0, len(o.berths)-1))) }

// words describes a pod's resources, such as "8 CPUs, 16 GiB on 0, 2 nvidia.com/gpu".
func (b *berth) words() string {
	var parts []string
	if n := b.cpus.Len(); n > 0 {
		parts = append(parts, count(n, "CPU"))
	}
	for _, m := range slices.SortedStableFunc(slices.Values(b.memory), func(x, y placement.MemoryBlock) int {
		return cmp.Compare(rankOf(x.Resource), rankOf(y.Resource))
	}) {
		text := size(m.Bytes)
		if m.Resource != "memory" {
			text += " of " + m.Resource
		}
		parts = append(parts, text+" on "+m.NUMA.String())
	}
	held := map[string]int{}
	var resources []string
	for _, d := range b.devices {
		if held[d.Resource] == 0 {
			resources = append(resources, d.Resource)
		}
		held[d.Resource] += len(d.IDs)
	}
	slices.Sort(resources)
	for _, r := range resources {
		parts = append(parts, fmt.Sprintf("%d %s", held[r], r))
	}
	if b.note != "" {
		parts = append(parts, b.note)
	}
	return strings.Join(parts, ", ")
}

// The method free describes the free CPUs of a NUMA node, without CPUs reserved for the system, and
// its total memory, such as "12 of 30 CPUs free, 128 GiB".
func (o *occupancy) free(node *topology.NUMANode) string {
	var parts []string
	if o.Pinning && !node.CPUs.IsEmpty() {
		all := node.CPUs.AndNot(&o.Reserved)
		free := all.AndLen(&o.Snapshot.SharedCPUs)
		if o.Free != nil {
			free = o.Free[node.ID]
		}
		parts = append(parts, fmt.Sprintf("%d of %d CPUs free", free, all.Len()))
	}
	if node.MemoryBytes > 0 {
		parts = append(parts, size(node.MemoryBytes))
	}
	return strings.Join(parts, ", ")
}

// amounts returns the Memory Manager's amounts on a NUMA node, ordinary memory first. It leaves out
// kinds of memory of which nothing is allocatable.
func (o *occupancy) amounts(id topology.NUMAID) (out []placement.MemoryAmounts) {
	for i := range o.Snapshot.Memory {
		if o.Snapshot.Memory[i].NUMA != id {
			continue
		}
		for _, m := range o.Snapshot.Memory[i].Resources {
			if m.Allocatable > 0 {
				out = append(out, m)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b placement.MemoryAmounts) int {
		return cmp.Compare(rankOf(a.Resource), rankOf(b.Resource))
	})
	return out
}

func rankOf(resource string) int {
	if resource == "memory" {
		return 0
	}
	return 1
}

// offered returns the devices of a pool on the NUMA node with the given id. If the argument nowhere
// is true, it returns the devices without a NUMA node instead.
func offered(pool *placement.DevicePool, id topology.NUMAID, nowhere bool) (out []*placement.Device) {
	for i := range pool.Devices {
		d := &pool.Devices[i]
		if nowhere && d.NUMA == 0 || !nowhere && d.NUMA.Has(id) {
			out = append(out, d)
		}
	}
	return out
}
