package kubeletstate

import (
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

// ints writes the elements of an []int.
func (d *dump) ints(v []int) {
	if v == nil {
		d.text("<nil>")
		return
	}
	d.text("[")
	for i, n := range v {
		if i > 0 {
			d.text(" ")
		}
		*d = strconv.AppendInt(*d, int64(n), 10)
	}
	d.text("]")
}

// strs writes the elements of a []string.
func (d *dump) strs(v []string) {
	if v == nil {
		d.text("<nil>")
		return
	}
	d.text("[")
	for i, s := range v {
		if i > 0 {
			d.text(" ")
		}
		d.text(s)
	}
	d.text("]")
}

// dumpMap writes a map with string keys; value writes one value.
func dumpMap[V any](d *dump, m map[string]V, value func(V)) {
	if m == nil {
		d.text("<nil>")
		return
	}
	d.text("map[")
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			d.text(" ")
		}
		d.text(k)
		d.text(":")
		value(m[k])
	}
	d.text("]")
}

// dumpIntMap is dumpMap for integer keys.
func dumpIntMap[K int | int64, V any](d *dump, m map[K]V, value func(V)) {
	if m == nil {
		d.text("<nil>")
		return
	}
	d.text("map[")
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			d.text(" ")
		}
		*d = strconv.AppendInt(*d, int64(k), 10)
		d.text(":")
		value(m[k])
	}
	d.text("]")
}

// end closes the struct of a CPU or memory checkpoint, whose own checksum counts as 0.
func (d *dump) end() { d.text(" Checksum:(checksum.Checksum)0}") }

// sumCPUv1 is the checksum of a checkpoint whose entries go by container id (before Kubernetes
// 1.17).
func sumCPUv1(c *cpuFileV1) uint32 {
	d := dumpCPUHead(c.PolicyName, c.DefaultCPUSet)
	d.field("Entries", "map[string]string")
	dumpMap(&d, c.Entries, d.text)
	d.end()
	return d.sum()
}

// sumCPU is the checksum with (v3) or without (v2) the field for pod-level assignments.
func sumCPU(c *cpuFile, podEntries bool) uint32 {
	d := dumpCPUHead(c.PolicyName, c.DefaultCPUSet)
	d.field("Entries", "map[string]map[string]string")
	dumpMap(&d, c.Entries, func(m map[string]string) { dumpMap(&d, m, d.text) })
	if podEntries {
		d.field("PodEntries", "state.PodCPUAssignments")
		dumpMap(&d, c.PodEntries, d.podCPUs)
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
	d.text("{CPUSet:(cpuset.CPUSet){elems:(map[int]struct {})map[")
	first := true
	for id := range set.All() {
		if !first {
			d.text(" ")
		}
		first = false
		*d = strconv.AppendUint(*d, uint64(id), 10)
		d.text(":{}")
	}
	d.text("]}}")
}

// sumMemory is the checksum with (v2) or without (v1) the field for pod-level assignments. No node
// or table may be nil.
func sumMemory(c *memoryFile, podEntries bool) uint32 {
	d := dump("(*state.MemoryManagerCheckpoint){")
	d.str("PolicyName", c.PolicyName)
	d.field("MachineState", "state.NUMANodeMap")
	dumpIntMap(&d, c.MachineState, d.node)
	d.field("Entries", "state.ContainerMemoryAssignments")
	dumpMap(&d, c.Entries, func(m map[string][]memoryBlock) { dumpMap(&d, m, d.blocks) })
	if podEntries {
		d.field("PodEntries", "state.PodMemoryAssignments")
		dumpMap(&d, c.PodEntries, func(e podMemoryEntry) {
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
	*d = strconv.AppendInt(*d, int64(n.NumberOfAssignments), 10)
	d.field("MemoryMap", "map[v1.ResourceName]*state.MemoryTable")
	dumpMap(d, n.MemoryMap, d.table)
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
	if blocks == nil {
		d.text("<nil>")
		return
	}
	d.text("[")
	for i, b := range blocks {
		if i > 0 {
			d.text(" ")
		}
		d.text("{")
		d.field("NUMAAffinity", "[]int")
		d.ints(b.NUMAAffinity)
		d.field("Type", "v1.ResourceName")
		d.text(b.Type)
		d.uint("Size", b.Size)
		d.text("}")
	}
	d.text("]")
}

// sumDevices is the checksum of the Data of a device checkpoint.
func sumDevices(c *deviceData) uint32 {
	d := dump("(checkpoint.checkpointData){")
	d.field("PodDeviceEntries", "[]checkpoint.PodDevicesEntry")
	if c.PodDeviceEntries == nil {
		d.text("<nil>")
	} else {
		d.text("[")
		for i := range c.PodDeviceEntries {
			if i > 0 {
				d.text(" ")
			}
			d.deviceEntry(&c.PodDeviceEntries[i])
		}
		d.text("]")
	}
	d.field("RegisteredDevices", "map[string][]string")
	dumpMap(&d, c.RegisteredDevices, d.strs)
	d.text("}")
	return d.sum()
}

func (d *dump) deviceEntry(e *deviceEntry) {
	d.text("{")
	d.str("PodUID", e.PodUID)
	d.str("ContainerName", e.ContainerName)
	d.str("ResourceName", e.ResourceName)
	d.field("DeviceIDs", "checkpoint.DevicesPerNUMA")
	dumpIntMap(d, e.DeviceIDs, d.strs)
	d.field("AllocResp", "[]uint8")
	if e.AllocResp == nil {
		d.text("<nil>")
	} else {
		d.text("[")
		for i, b := range e.AllocResp {
			if i > 0 {
				d.text(" ")
			}
			*d = strconv.AppendUint(*d, uint64(b), 10)
		}
		d.text("]")
	}
	d.text("}")
}

// sumText is the checksum of a string (the data field of Kubernetes 1.37).
func sumText(s string) uint32 { return dump("(string)" + s).sum() }
