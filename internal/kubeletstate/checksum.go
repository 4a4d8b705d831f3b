package kubeletstate

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/topology"
)

// A checkpoint's checksum is FNV-1a (32 bit) over the text that k8s.io/utils/dump.ForHash makes of
// the Go value (pkg/kubelet/checkpointmanager/checksum): spew's "%#v" with sorted keys and without
// methods. That text holds the names of the kubelet's types and tells a nil map from an empty one,
// so it is written here field by field, for the types as they are in pkg/kubelet/cm/*/state and
// devicemanager/checkpoint.
type dump []byte

// sum is the checksum of what has been written.
func (d dump) sum() uint32 {
	h := fnv.New32a()
	h.Write(d)
	return h.Sum32()
}

func (d *dump) text(s string) { *d = append(*d, s...) }

// field begins a field of a struct.
func (d *dump) field(name, typ string) {
	if n := len(*d); n > 0 && (*d)[n-1] != '{' {
		d.text(" ")
	}
	d.text(name)
	d.text(":(")
	d.text(typ)
	d.text(")")
}

func (d *dump) str(name, s string) {
	d.field(name, "string")
	d.text(s)
}

func (d *dump) uint(name string, v uint64) {
	d.field(name, "uint64")
	*d = strconv.AppendUint(*d, v, 10)
}

func (d *dump) number(v int) { *d = strconv.AppendInt(*d, int64(v), 10) }

// list writes a slice; element writes one of it.
func list[V any](d *dump, all []V, element func(V)) {
	if all == nil {
		d.text("<nil>")
		return
	}
	d.text("[")
	for i, v := range all {
		if i > 0 {
			d.text(" ")
		}
		element(v)
	}
	d.text("]")
}

func (d *dump) ints(v []int)    { list(d, v, d.number) }
func (d *dump) strs(v []string) { list(d, v, d.text) }

// dumpMap writes a map, by ascending key; key writes one of those, value a value.
func dumpMap[K cmp.Ordered, V any](d *dump, m map[K]V, key func(K), value func(V)) {
	if m == nil {
		d.text("<nil>")
		return
	}
	keys := slices.AppendSeq([]K{}, maps.Keys(m))
	slices.Sort(keys)
	d.text("map")
	list(d, keys, func(k K) {
		key(k)
		d.text(":")
		value(m[k])
	})
}

// end closes the struct of a CPU or memory checkpoint, whose own checksum counts as 0.
func (d *dump) end() { d.text(" Checksum:(checksum.Checksum)0}") }

// sumCPUv1 is the checksum of a checkpoint whose entries go by container id (before Kubernetes
// 1.17).
func sumCPUv1(c *cpuFileV1) uint32 {
	d := dumpCPUHead(c.PolicyName, c.DefaultCPUSet)
	d.field("Entries", "map[string]string")
	dumpMap(&d, c.Entries, d.text, d.text)
	d.end()
	return d.sum()
}

// sumCPU is the checksum with (v3) or without (v2) the field for pod-level assignments.
func sumCPU(c *cpuFile, podEntries bool) uint32 {
	d := dumpCPUHead(c.PolicyName, c.DefaultCPUSet)
	d.field("Entries", "map[string]map[string]string")
	dumpMap(&d, c.Entries, d.text, func(m map[string]string) { dumpMap(&d, m, d.text, d.text) })
	if podEntries {
		d.field("PodEntries", "state.PodCPUAssignments")
		dumpMap(&d, c.PodEntries, d.text, d.podCPUs)
	}
	d.end()
	return d.sum()
}

func dumpCPUHead(policy, cpus string) dump {
	d := dump("(*state.CPUManagerCheckpoint){")
	d.str("PolicyName", policy)
	d.str("DefaultCPUSet", cpus)
	return d
}

// podCPUs writes a state.PodEntry, whose set is a k8s.io/utils/cpuset.CPUSet. A list that cannot be
// read is left for the parser to refuse.
func (d *dump) podCPUs(e podCPUEntry) {
	set, _ := topology.ParseCPUList(e.CPUSet)
	d.text("{CPUSet:(cpuset.CPUSet){elems:(map[int]struct {})map")
	list(d, slices.AppendSeq([]topology.CPUID{}, set.All()), func(id topology.CPUID) {
		d.number(int(id))
		d.text(":{}")
	})
	d.text("}}")
}

// sumMemory is the checksum with (v2) or without (v1) the field for pod-level assignments. No node
// or table may be nil.
func sumMemory(c *memoryFile, podEntries bool) uint32 {
	d := dump("(*state.MemoryManagerCheckpoint){")
	d.str("PolicyName", c.PolicyName)
	d.field("MachineState", "state.NUMANodeMap")
	dumpMap(&d, c.MachineState, d.number, d.node)
	d.field("Entries", "state.ContainerMemoryAssignments")
	dumpMap(&d, c.Entries, d.text, func(m map[string][]memoryBlock) { dumpMap(&d, m, d.text, d.blocks) })
	if podEntries {
		d.field("PodEntries", "state.PodMemoryAssignments")
		dumpMap(&d, c.PodEntries, d.text, func(e podMemoryEntry) {
			d.text("{")
			d.field("MemoryBlocks", "[]state.Block")
			d.blocks(e.MemoryBlocks)
			d.text("}")
		})
	}
	d.end()
	return d.sum()
}

func (d *dump) node(n *memoryNode) {
	d.text("<*>{")
	d.field("NumberOfAssignments", "int")
	d.number(n.NumberOfAssignments)
	d.field("MemoryMap", "map[v1.ResourceName]*state.MemoryTable")
	dumpMap(d, n.MemoryMap, d.text, d.table)
	d.field("Cells", "[]int")
	d.ints(n.Cells)
	d.text("}")
}

func (d *dump) table(t *memoryTable) {
	d.text("<*>{")
	d.uint("TotalMemSize", t.Total)
	d.uint("SystemReserved", t.SystemReserved)
	d.uint("Allocatable", t.Allocatable)
	d.uint("Reserved", t.Reserved)
	d.uint("Free", t.Free)
	d.text("}")
}

func (d *dump) blocks(blocks []memoryBlock) {
	list(d, blocks, func(b memoryBlock) {
		d.text("{")
		d.field("NUMAAffinity", "[]int")
		d.ints(b.NUMAAffinity)
		d.field("Type", "v1.ResourceName")
		d.text(b.Type)
		d.uint("Size", b.Size)
		d.text("}")
	})
}

// sumDevices is the checksum of the Data of a device checkpoint.
func sumDevices(c *deviceData) uint32 {
	d := dump("(checkpoint.checkpointData){")
	d.field("PodDeviceEntries", "[]checkpoint.PodDevicesEntry")
	list(&d, c.PodDeviceEntries, d.deviceEntry)
	d.field("RegisteredDevices", "map[string][]string")
	dumpMap(&d, c.RegisteredDevices, d.text, d.strs)
	d.text("}")
	return d.sum()
}

func (d *dump) deviceEntry(e deviceEntry) {
	d.text("{")
	d.str("PodUID", e.PodUID)
	d.str("ContainerName", e.ContainerName)
	d.str("ResourceName", e.ResourceName)
	d.field("DeviceIDs", "checkpoint.DevicesPerNUMA")
	dumpMap(d, e.DeviceIDs, func(numa int64) { d.number(int(numa)) }, d.strs)
	d.field("AllocResp", "[]uint8")
	list(d, e.AllocResp, func(b byte) { d.number(int(b)) })
	d.text("}")
}

// sumText is the checksum of a string (the data field of Kubernetes 1.37).
func sumText(s string) uint32 { return dump("(string)" + s).sum() }
