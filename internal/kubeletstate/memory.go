package kubeletstate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// MemoryState is the content of a memory_manager_state.
type MemoryState struct {
	Policy string
	// Nodes is machineState, ascending by NUMA node.
	Nodes []MemoryNode
	// Entries are the blocks of containers, ascending by pod UID, then container.
	Entries []MemoryEntry
	// PodEntries are pod-level assignments (gate PodLevelResourceManagers), ascending by pod UID.
	PodEntries []MemoryEntry
	// Verified is false if the file has no checksum. The kubelet accepts such a file.
	Verified bool
}

// MemoryNode has the machineState of one NUMA node.
type MemoryNode struct {
	placement.MemoryTable
	// Totals are the bytes, by resource, that the kubelet found when it started (the field total).
	Totals map[string]uint64
	// SystemReserved are the bytes, by resource, that no container gets.
	SystemReserved map[string]uint64
}

// MemoryEntry has the pinned memory of a container, or, if Container is "", of a pod as a whole.
type MemoryEntry struct {
	PodUID, Container string
	// Blocks are ascending by resource, then by NUMA nodes. The kubelet writes them in random
	// order.
	Blocks []placement.MemoryBlock
}

// The file in the formats of pkg/kubelet/cm/memorymanager/state: v1, v2 (podEntries) and v3 (data).
type memoryFile struct {
	PolicyName   string          `json:"policyName"`
	MachineState memoryNodes     `json:"machineState"`
	Entries      containerBlocks `json:"entries"`
	PodEntries   podBlocks       `json:"podEntries"`
	Checksum     uint64          `json:"checksum"`
	Data         string          `json:"data"`
	DataChecksum uint64          `json:"dataChecksum"`
}

type (
	memoryNodes     map[int]*memoryNode
	containerBlocks map[string]map[string][]memoryBlock
	podBlocks       map[string]podMemoryEntry
	resourceName    string
)

type podMemoryEntry struct {
	MemoryBlocks []memoryBlock `json:"memoryBlocks"`
}

type memoryNode struct {
	NumberOfAssignments int                           `json:"numberOfAssignments"`
	MemoryMap           map[resourceName]*memoryTable `json:"memoryMap"`
	Cells               []int                         `json:"cells"`
}

type memoryTable struct {
	Total          uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

type memoryBlock struct {
	NUMAAffinity []int        `json:"numaAffinity"`
	Type         resourceName `json:"type"`
	Size         uint64       `json:"size"`
}

func newMemoryFile() memoryFile {
	return memoryFile{MachineState: memoryNodes{}, Entries: containerBlocks{}, PodEntries: podBlocks{}}
}

// sums returns the checksums without (v1) and with (v2) the field for pod-level assignments. nameV1
// is the kubelet's name for the type of v1, which is part of the checksum.
func (in *memoryFile) sums(nameV1 string) (v1, v2 uint32) {
	book := memoryV1{PolicyName: in.PolicyName, MachineState: in.MachineState, Entries: in.Entries}
	return sumMemory(nameV1, &book, nil), sumMemory(memoryTypeName, &book, &in.PodEntries)
}

// verify accepts a missing checksum, the checksum of v2, and the checksums of v1 with either of the
// type names that Kubernetes 1.36 accepts. Unless the checksum is that of v2, verify removes the
// pod-level assignments, because a kubelet reads them only from v2.
func (in *memoryFile) verify(f file) *Error {
	pods := in.PodEntries
	v1, v2 := in.sums(memoryTypeName)
	own, _ := in.sums("MemoryManagerCheckpointV1")
	in.PodEntries = nil
	switch in.Checksum {
	case uint64(v2):
		in.PodEntries = pods
		return nil
	case 0, uint64(v1), uint64(own):
		return nil
	}
	if len(pods) > 0 {
		v1 = v2
	}
	return f.checksum("checksum", in.Checksum, v1)
}

// ParseMemory parses a memory_manager_state of Kubernetes 1.21 to 1.37. The error is an *Error that
// contains name as the file's name.
func ParseMemory(name string, data []byte) (*MemoryState, error) {
	f := file(name)
	in := newMemoryFile()
	if err := decode(data, &in); err != nil {
		return nil, f.broken("", err, "the JSON of a memory_manager_state")
	}
	if err := f.noNulls(&in); err != nil {
		return nil, err
	}
	out := &MemoryState{}
	switch {
	case in.Data != "" || in.DataChecksum != 0:
		if in.DataChecksum != uint64(sumText(in.Data)) {
			return nil, f.checksum("dataChecksum", in.DataChecksum, sumText(in.Data))
		}
		inner := newMemoryFile()
		if err := decode([]byte(in.Data), &inner); err != nil {
			return nil, f.broken("data", err, "the JSON of a memory manager checkpoint")
		}
		if err := f.noNulls(&inner); err != nil {
			return nil, err
		}
		in, out.Verified = inner, true
	default:
		out.Verified = in.Checksum != 0
		if err := in.verify(f); err != nil {
			return nil, err
		}
	}
	return out, f.memoryState(&in, out)
}

// noNulls refuses values that would crash the kubelet.
func (f file) noNulls(in *memoryFile) error {
	for id, n := range in.MachineState {
		at := fmt.Sprintf("machineState[%d]", id)
		if n == nil {
			return f.err(at, "null", "the state of a NUMA node")
		}
		for resource, t := range n.MemoryMap {
			if t == nil {
				return f.err(at+".memoryMap["+string(resource)+"]", "null", "a table")
			}
		}
	}
	return nil
}

func (f file) memoryState(in *memoryFile, out *MemoryState) (err error) {
	out.Policy = in.PolicyName
	if out.Nodes, err = inOrder(in.MachineState, f.memoryNode); err != nil {
		return err
	}
	out.Entries, err = byContainer(in.Entries, func(uid, container string, in []memoryBlock) (MemoryEntry, error) {
		blocks, err := f.blocks(fmt.Sprintf("entries[%s][%s]", uid, container), in)
		return MemoryEntry{uid, container, blocks}, err
	})
	if err != nil {
		return err
	}
	out.PodEntries, err = inOrder(in.PodEntries, func(uid string, e podMemoryEntry) (MemoryEntry, error) {
		blocks, err := f.blocks("podEntries["+uid+"]", e.MemoryBlocks)
		return MemoryEntry{PodUID: uid, Blocks: blocks}, err
	})
	return err
}

func (f file) memoryNode(id int, n *memoryNode) (MemoryNode, error) {
	at := fmt.Sprintf("machineState[%d]", id)
	if id < 0 || id >= topology.MaxNUMANodes {
		return MemoryNode{}, f.err(at, id, "a NUMA node between 0 and 63")
	}
	if n.NumberOfAssignments < 0 {
		return MemoryNode{}, f.err(at+".numberOfAssignments", n.NumberOfAssignments, "a number that is not negative")
	}
	cells, err := f.nodes(at+".cells", n.Cells)
	if err != nil {
		return MemoryNode{}, err
	}
	out := MemoryNode{Totals: map[string]uint64{}, SystemReserved: map[string]uint64{}}
	out.NUMA, out.Assignments, out.Cells = topology.NUMAID(id), n.NumberOfAssignments, cells
	for _, name := range slices.Sorted(maps.Keys(n.MemoryMap)) {
		t, resource := n.MemoryMap[name], string(name)
		out.Totals[resource], out.SystemReserved[resource] = t.Total, t.SystemReserved
		out.Resources = append(out.Resources, placement.MemoryAmounts{
			Resource: resource, Allocatable: t.Allocatable, Reserved: t.Reserved, Free: t.Free,
		})
	}
	return out, nil
}

// Check returns an error if amounts do not add up, or if the group (cells) of a NUMA node lacks
// this NUMA node. The error is an *Error.
func (s *MemoryState) Check(name string) error {
	f := file(name)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		at := fmt.Sprintf("machineState[%d]", n.NUMA)
		if !n.Cells.Has(n.NUMA) {
			return f.err(at+".cells", n.Cells, fmt.Sprintf("a group that contains NUMA node %d", n.NUMA))
		}
		for _, a := range n.Resources {
			if a.Reserved > a.Allocatable || a.Free != a.Allocatable-a.Reserved {
				amounts := fmt.Sprintf("%d reserved + %d free, %d allocatable", a.Reserved, a.Free, a.Allocatable)
				return f.err(at+".memoryMap["+a.Resource+"]", amounts, "reserved + free = allocatable")
			}
		}
	}
	return nil
}

func (f file) blocks(at string, in []memoryBlock) ([]placement.MemoryBlock, error) {
	var out []placement.MemoryBlock
	for i, b := range in {
		numa, err := f.nodes(fmt.Sprintf("%s[%d].numaAffinity", at, i), b.NUMAAffinity)
		if err != nil {
			return nil, err
		}
		if numa == 0 {
			return nil, f.err(fmt.Sprintf("%s[%d].numaAffinity", at, i), "[]", "at least one NUMA node")
		}
		out = append(out, placement.MemoryBlock{Resource: string(b.Type), NUMA: numa, Bytes: b.Size})
	}
	slices.SortStableFunc(out, func(a, b placement.MemoryBlock) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.NUMA, b.NUMA))
	})
	return out, nil
}

func (f file) nodes(at string, ids []int) (topology.NUMASet, error) {
	var set topology.NUMASet
	for _, id := range ids {
		if id < 0 || id >= topology.MaxNUMANodes {
			return 0, f.err(at, id, "NUMA nodes between 0 and 63")
		}
		set = set.With(topology.NUMAID(id))
	}
	return set, nil
}

// memoryTypeName is the name that each release of the kubelet gives the type of its newest format.
const memoryTypeName = "MemoryManagerCheckpoint"

// sumMemory returns the checksum of a checkpoint whose type has the given name in the kubelet. The
// argument pods is nil if the type has no pod-level assignments.
func sumMemory(typ string, c *memoryV1, pods *podBlocks) uint32 {
	d := newDump("(*state." + typ + "){")
	d.str("PolicyName", c.PolicyName)
	d.field("MachineState", "state.NUMANodeMap")
	dumpMap(d, c.MachineState, d.number, d.node)
	d.field("Entries", "state.ContainerMemoryAssignments")
	dumpMap(d, c.Entries, d.text, func(m map[string][]memoryBlock) { dumpMap(d, m, d.text, d.blocks) })
	if pods != nil {
		d.field("PodEntries", "state.PodMemoryAssignments")
		dumpMap(d, *pods, d.text, func(e podMemoryEntry) {
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
	if n == nil {
		d.null()
		return
	}
	d.text("<*>{")
	d.field("NumberOfAssignments", "int")
	d.number(n.NumberOfAssignments)
	d.field("MemoryMap", "map[v1.ResourceName]*state.MemoryTable")
	dumpMap(d, n.MemoryMap, func(r resourceName) { d.text(string(r)) }, d.table)
	d.field("Cells", "[]int")
	d.ints(n.Cells)
	d.text("}")
}

func (d *dump) table(t *memoryTable) {
	if t == nil {
		d.null()
		return
	}
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
		d.text(string(b.Type))
		d.uint("Size", b.Size)
		d.text("}")
	})
}
