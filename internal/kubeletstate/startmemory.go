package kubeletstate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/placement"
)

// The formats of a memory_manager_state (pkg/kubelet/cm/memorymanager/state/checkpoint.go).
type (
	memoryV1 struct {
		PolicyName   string          `json:"policyName"`
		MachineState memoryNodes     `json:"machineState"`
		Entries      containerBlocks `json:"entries,omitempty"`
		Checksum     checksumValue   `json:"checksum"`
	}
	memoryV2 struct {
		PolicyName   string          `json:"policyName"`
		MachineState memoryNodes     `json:"machineState"`
		Entries      containerBlocks `json:"entries,omitempty"`
		PodEntries   podBlocks       `json:"podEntries,omitempty"`
		Checksum     checksumValue   `json:"checksum"`
	}
	// memoryV3 contains V1 for older kubelets. A kubelet that knows this format reads Data.
	memoryV3 struct {
		memoryV1
		Data         string        `json:"data"`
		DataChecksum checksumValue `json:"dataChecksum"`
	}
	memoryV3Data struct {
		PolicyName   string          `json:"policyName"`
		MachineState memoryNodes     `json:"machineState"`
		Entries      containerBlocks `json:"entries,omitempty"`
		PodEntries   podBlocks       `json:"podEntries,omitempty"`
	}
)

var memoryTypes = typeNames{
	"memoryV1": "state.MemoryManagerCheckpointV1", "memoryV2": "state.MemoryManagerCheckpointV2",
	"memoryV3": "state.MemoryManagerCheckpoint", "memoryV3Data": "state.MemoryManagerCheckpointData",
	"memoryNodes": "state.NUMANodeMap", "memoryNode": "state.NUMANodeState", "memoryTable": "state.MemoryTable",
	"containerBlocks": "state.ContainerMemoryAssignments", "podBlocks": "state.PodMemoryAssignments",
	"podMemoryEntry": "state.PodEntry", "memoryBlock": "state.Block",
	"resourceName": "v1.ResourceName", "checksumValue": "checksum.Checksum",
}

// memoryTypesUntil135 are the type names of the releases that have only one format.
var memoryTypesUntil135 = memoryTypes.but("memoryV1", "state."+memoryTypeName)

// memoryBook is the state that a memory manager reads from its checkpoint.
type memoryBook struct {
	memoryV1
	pods podBlocks // pod-level assignments; only for a manager that knows them
}

// charged returns the blocks that count for a pod, by container. If the pod has blocks of its own,
// only these count, and their key is "".
func (c *memoryBook) charged(pod string) map[string][]memoryBlock {
	if own := c.pods[pod].MemoryBlocks; len(own) > 0 {
		return map[string][]memoryBlock{"": own}
	}
	return c.Entries[pod]
}

// StartMemory returns a *StartError if the memory manager does not start with this
// memory_manager_state in root. If data is nil, there is no file.
func StartMemory(s *placement.Startup, root string, data []byte) error {
	if data == nil {
		return nil // the kubelet writes a new file
	}
	book, err := readMemory(s, data)
	if errors.Is(err, errNilPointer) {
		return crashed(root)
	}
	if err == nil && s.MemoryPolicy != book.PolicyName {
		err = fmt.Errorf("[memorymanager] configured policy %q differs from state checkpoint policy %q", s.MemoryPolicy, book.PolicyName)
	}
	if err != nil {
		return restoreError(root, MemoryFile, "memory", err)
	}
	if book.nullTable() {
		return crashed(root)
	}
	if s.MemoryPolicy != "Static" {
		return nil
	}
	return book.validate(s, root)
}

// readMemory loads and migrates a checkpoint, which differs between releases
// (pkg/kubelet/cm/memorymanager/state/state_checkpoint.go).
func readMemory(s *placement.Startup, data []byte) (*memoryBook, error) {
	book, err := readMemoryFile(s, data)
	if err == nil && !s.PodLevel {
		book.pods = nil
	}
	return book, err
}

func readMemoryFile(s *placement.Startup, data []byte) (*memoryBook, error) {
	switch {
	case s.Version <= placement.V135:
		return readMemoryV1(data, memoryTypesUntil135, memoryV1Sums{own: memoryTypeName})
	case s.Version == placement.V136 && s.PodLevel:
		book, err := readMemoryV2(data)
		if err == nil {
			return book, nil
		}
		pods := book.pods // the kubelet keeps what it has read before the error
		book, err = readMemoryV1(data, memoryTypes, memoryV1Sums{own: memoryTypeName, none: true})
		switch {
		case err != nil:
			return nil, err
		case book.nullTable(): // the kubelet migrates the file before it compares the policy
			return nil, errNilPointer
		}
		book.pods = pods
		return book, nil
	case s.Version == placement.V136:
		return readMemoryV1(data, memoryTypes, memoryV1Sums{own: memoryTypeName, also: "MemoryManagerCheckpointV1", none: true})
	}
	return readMemoryV3(data)
}

// memoryV1Sums defines which checksums a release accepts for V1: checksums that are computed with
// the type names own and also. The flag none means that the release also accepts a file without a
// checksum.
type memoryV1Sums struct {
	own, also string
	none      bool
}

func readMemoryV1(data []byte, names typeNames, accepts memoryV1Sums) (*memoryBook, error) {
	in := memoryV1{Entries: containerBlocks{}, MachineState: memoryNodes{}}
	if err := unmarshal(data, &in, names); err != nil {
		return nil, err
	}
	if accepts.none && in.Checksum == 0 {
		return &memoryBook{memoryV1: in}, nil
	}
	if in.Checksum != checksumValue(sumMemory(accepts.own, &in, nil)) && (accepts.also == "" || in.Checksum != checksumValue(sumMemory(accepts.also, &in, nil))) {
		return nil, errCorrupted
	}
	return &memoryBook{memoryV1: in}, nil
}

// readMemoryV2 returns the parts that it could read even if there is an error.
func readMemoryV2(data []byte) (*memoryBook, error) {
	in := memoryV2{Entries: containerBlocks{}, PodEntries: podBlocks{}, MachineState: memoryNodes{}}
	err := unmarshal(data, &in, memoryTypes)
	book := &memoryBook{memoryV1{PolicyName: in.PolicyName, MachineState: in.MachineState, Entries: in.Entries}, in.PodEntries}
	if err == nil && in.Checksum != checksumValue(sumMemory(memoryTypeName, &book.memoryV1, &in.PodEntries)) {
		err = errCorrupted
	}
	return book, err
}

// readMemoryV3 falls back to V2 and V1, unless the file has fields of V3.
func readMemoryV3(data []byte) (*memoryBook, error) {
	in := memoryV3{memoryV1: memoryV1{Entries: containerBlocks{}, MachineState: memoryNodes{}}}
	inner := memoryV3Data{Entries: containerBlocks{}, PodEntries: podBlocks{}, MachineState: memoryNodes{}}
	err := readData(data, &in, memoryTypes, "memory manager checkpoint", func() error { return unmarshal([]byte(in.Data), &inner, memoryTypes) })
	if err == nil && in.DataChecksum != checksumValue(sumText(in.Data)) {
		err = errCorrupted
	}
	switch {
	case err == nil:
		return &memoryBook{memoryV1{PolicyName: inner.PolicyName, MachineState: inner.MachineState, Entries: inner.Entries}, inner.PodEntries}, nil
	case in.Data != "" || in.DataChecksum != 0:
		return nil, fmt.Errorf("could not load v3 checkpoint: %w", err)
	}
	book, err := readMemoryV2(data)
	if err != nil {
		book, err = readMemoryV1(data, memoryTypes, memoryV1Sums{own: memoryTypeName, none: true})
	}
	if err == nil && book.nullTable() { // the kubelet migrates the file before it compares the policy
		return nil, errNilPointer
	}
	return book, err
}

// nullTable reports whether a memory table is null. The kubelet then panics in NUMANodeMap.Clone.
func (c *memoryV1) nullTable() bool {
	for _, n := range c.MachineState {
		if n == nil {
			continue
		}
		for _, t := range n.MemoryMap {
			if t == nil {
				return true
			}
		}
	}
	return false
}

// validate does what validateState of pkg/kubelet/cm/memorymanager/policy_static.go does.
func (c *memoryBook) validate(s *placement.Startup, root string) error {
	if len(c.MachineState) == 0 {
		if len(c.Entries) != 0 {
			return invalid(root, MemoryFile, errors.New("[memorymanager] machine state can not be empty when it has memory assignments"))
		}
		return nil
	}
	expected := defaultMachineState(s)
	strange := &randomWords{}
	for _, pod := range slices.Sorted(maps.Keys(c.Entries)) {
		charged := c.charged(pod)
		for _, container := range slices.Sorted(maps.Keys(charged)) {
			if err := expected.take(charged[container]); err != nil {
				strange.add(fmt.Errorf("[memorymanager] (pod: %s, container: %s) %w", pod, container, err))
			}
		}
	}
	if err := strange.err(); err != nil {
		return invalid(root, MemoryFile, err)
	}
	found := c.MachineState.compare(expected, c.groups())
	return found.err(root)
}

// defaultMachineState does what the kubelet's getDefaultMachineState does.
func defaultMachineState(s *placement.Startup) memoryNodes {
	out := memoryNodes{}
	for _, m := range s.Memory {
		id := int(m.NUMA)
		if out[id] == nil {
			out[id] = &memoryNode{MemoryMap: map[resourceName]*memoryTable{}, Cells: []int{id}}
		}
		out[id].MemoryMap[resourceName(m.Resource)] = &memoryTable{Total: m.Total, SystemReserved: m.SystemReserved, Allocatable: m.Allocatable, Free: m.Allocatable}
	}
	return out
}

// take does what the kubelet's updateExpectedMachineState does.
func (ns memoryNodes) take(blocks []memoryBlock) error {
	for _, b := range blocks {
		left := b.Size
		for _, id := range b.NUMAAffinity {
			n := ns[id]
			if n == nil {
				return errors.New("the memory assignment uses the NUMA that does not exist")
			}
			n.NumberOfAssignments++
			n.Cells = b.NUMAAffinity
			t := n.MemoryMap[b.Type]
			if t == nil {
				return errors.New("the memory assignment uses memory resource that does not exist")
			}
			taken := min(left, t.Free)
			t.Reserved += taken
			t.Free -= taken
			left -= taken
		}
	}
	return nil
}

// groups returns, for each NUMA node, the different sets of NUMA nodes that containers' blocks on
// this NUMA node use. If there are several, the kubelet keeps the set of the container that it
// handles last.
func (c *memoryBook) groups() map[int][][]int {
	out := map[int][][]int{}
	for pod := range c.Entries {
		for _, blocks := range c.charged(pod) {
			last := map[int][]int{}
			for _, b := range blocks {
				for _, id := range b.NUMAAffinity {
					last[id] = slices.Sorted(slices.Values(b.NUMAAffinity))
				}
			}
			for id, group := range last {
				if !slices.ContainsFunc(out[id], func(g []int) bool { return slices.Equal(g, group) }) {
					out[id] = append(out[id], group)
				}
			}
		}
	}
	return out
}

// compared has the possible results of the kubelet's areMachineStatesEqual. That function visits
// NUMA nodes and kinds of memory in random order, and ends at the first difference.
type compared struct {
	// different means that there is a difference that does not depend on the order of blocks. The
	// field reordered means that there is a difference that may depend on this order. The field
	// detail describes the first difference.
	different, reordered bool
	detail               string
	// crash means that the kubelet may panic, because it looks up a NUMA node or a kind of memory
	// that the file does not have.
	crash bool
	// mixed means that some NUMA node is in several groups (see memoryBook.groups).
	mixed bool
}

func (c *compared) err(root string) error {
	e := invalid(root, MemoryFile, errors.New("[memorymanager] the expected machine state is different from the real one"))
	e.Chance, e.Detail = c.mixed && !c.different, c.detail
	switch differs := c.different || c.reordered || c.mixed; {
	case c.crash && differs:
		e.Or = []string{errNilPointer.Error()}
	case c.crash:
		e = crashed(root)
	case !differs:
		return nil
	}
	return e
}

// compare does what the kubelet's areMachineStatesEqual does.
func (ns memoryNodes) compare(expected memoryNodes, groups map[int][][]int) (out compared) {
	if len(ns) != len(expected) {
		out.differ("NUMA nodes "+idsOf(ns), idsOf(expected))
		return out
	}
	for _, id := range slices.Sorted(maps.Keys(ns)) {
		n, want := ns[id], expected[id]
		out.mixed = out.mixed || len(groups[id]) > 1
		switch {
		case want == nil:
			out.differ(fmt.Sprintf("NUMA node %d", id), "none")
		case n == nil:
			out.crash = true
		default:
			out.compareNode(ns, expected, id, groups[id])
		}
	}
	return out
}

func (c *compared) compareNode(ns, expected memoryNodes, id int, groups [][]int) {
	n, want := ns[id], expected[id]
	cells := slices.Sorted(slices.Values(n.Cells))
	isCells := func(group []int) bool { return slices.Equal(group, cells) }
	at := fmt.Sprintf("NUMA node %d: ", id)
	switch same := isCells(slices.Sorted(slices.Values(want.Cells))); {
	case n.NumberOfAssignments != want.NumberOfAssignments:
		c.differ(fmt.Sprintf("%s%d assignments", at, n.NumberOfAssignments), fmt.Sprintf("%d, computed from the memory blocks", want.NumberOfAssignments))
		return
	case len(n.MemoryMap) != len(want.MemoryMap):
		c.differ(fmt.Sprintf("%s%d kinds of memory", at, len(n.MemoryMap)), fmt.Sprint(len(want.MemoryMap)))
		return
	case !same && !slices.ContainsFunc(groups, isCells):
		c.differ(at+"group "+listed(cells), listed(want.Cells)+", computed from the memory blocks")
		return
	case !same:
		c.reordered = true
	}
	for _, resource := range slices.Sorted(maps.Keys(n.MemoryMap)) {
		t, w := n.MemoryMap[resource], want.MemoryMap[resource]
		at := at + string(resource) + ": "
		switch {
		case w == nil:
			c.differ(at+"a table", "none")
			continue
		case t.Total != w.Total:
			c.differ(fmt.Sprintf("%s%d bytes", at, t.Total), fmt.Sprint(w.Total))
			continue
		case t.SystemReserved != w.SystemReserved:
			c.differ(fmt.Sprintf("%s%d bytes reserved for the system", at, t.SystemReserved), fmt.Sprint(w.SystemReserved))
			continue
		case t.Allocatable != w.Allocatable:
			c.differ(fmt.Sprintf("%s%d bytes allocatable", at, t.Allocatable), fmt.Sprint(w.Allocatable))
			continue
		}
		var got, all memoryTable
		for _, cell := range cells {
			a, b := ns.table(cell, resource), expected.table(cell, resource)
			if a == nil || b == nil {
				c.crash = true
				break
			}
			got.Free, got.Reserved = got.Free+a.Free, got.Reserved+a.Reserved
			all.Free, all.Reserved = all.Free+b.Free, all.Reserved+b.Reserved
		}
		if got != all {
			c.reordered = true
			c.detail = cmp.Or(c.detail, fmt.Sprintf("%sgroup %s has %d bytes reserved and %d free, but the memory blocks in the file give %d reserved and %d free", at, listed(cells), got.Reserved, got.Free, all.Reserved, all.Free))
		}
	}
}

func (c *compared) differ(has, want string) {
	c.different = true
	c.detail = cmp.Or(c.detail, has+" in the file, want "+want)
}

func idsOf(ns memoryNodes) string { return listed(slices.Sorted(maps.Keys(ns))) }

func listed(ids []int) string {
	var out []string
	for _, id := range ids {
		out = append(out, strconv.Itoa(id))
	}
	return strings.Join(out, ",")
}

func (ns memoryNodes) table(id int, resource resourceName) *memoryTable {
	if ns[id] == nil {
		return nil
	}
	return ns[id].MemoryMap[resource]
}
