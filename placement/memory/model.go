// Package memory reproduces the kubelet's static memory manager: its hints for amounts of memory
// and huge pages, the NUMA nodes from which it takes memory, and how it frees memory.
//
// A Model is the compiled memory of a machine, and is immutable. A Book has the assigned memory.
// The code follows pkg/kubelet/cm/memorymanager/policy_static.go, including its groups of NUMA
// nodes and its uint64 arithmetic.
package memory

import (
	"maps"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Regular is the resource name of ordinary memory; huge pages are "hugepages-" and the page size.
const Regular = "memory"

// Kind is a kind of memory: an index into Model.Names.
type Kind uint8

// Node is the memory of one NUMA node as the kubelet sees it.
type Node struct {
	// Bytes is the size of the NUMA node's memory, huge pages included.
	Bytes     uint64
	HugePages []topology.HugePages
	// Reserved is the memory that is kept for the system, in bytes by resource name.
	Reserved map[string]uint64
}

// Model is the memory of a machine, and the part that the kubelet can assign.
type Model struct {
	space *hint.Space
	names []string // ascending
	has   []hint.Mask
	// allocatable, total and reserved are by kind, then by NUMA node, in bytes.
	allocatable, total, reserved []uint64
	// endless has, by kind, whether the kubelet counts almost 2^64 bytes on some NUMA node, because
	// the system's reservation and the huge pages are more than the NUMA node has.
	endless []bool
	// most[kind][k] is the largest allocatable amount of the kind on k NUMA nodes. most[kind] is
	// nil if a sum overflows.
	most [][]uint64
}

// NewModel compiles the memory of a machine. The position of a NUMA node in nodes is its position
// in the space.
func NewModel(space *hint.Space, nodes []Node) *Model {
	m := &Model{space: space, names: namesOf(nodes)}
	cells := len(m.names) * len(nodes)
	m.has = make([]hint.Mask, len(m.names))
	m.allocatable, m.total, m.reserved = make([]uint64, cells), make([]uint64, cells), make([]uint64, cells)
	m.endless = make([]bool, len(m.names))
	for i := range nodes {
		m.addNode(i, &nodes[i])
	}
	for k := range m.names {
		m.most = append(m.most, prefixSums(m.row(m.allocatable, Kind(k))))
	}
	return m
}

func namesOf(nodes []Node) []string {
	names := []string{Regular}
	for i := range nodes {
		for _, h := range nodes[i].HugePages {
			names = append(names, HugePages(h.PageBytes))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// addNode implements getDefaultMachineState for one NUMA node. Huge pages, reserved or not, do not
// count as ordinary memory.
func (m *Model) addNode(pos int, n *Node) {
	var huge uint64
	for _, h := range n.HugePages {
		size := h.PageBytes * h.Count
		huge += size
		m.set(pos, HugePages(h.PageBytes), size, n.Reserved)
	}
	m.set(pos, Regular, n.Bytes, n.Reserved)
	k, _ := m.Kind(Regular)
	at := m.at(k, pos)
	m.endless[k] = m.endless[k] || m.reserved[at] > m.total[at] || huge > m.total[at]-m.reserved[at]
	m.allocatable[at] -= huge
}

// Underflows reports whether the kubelet counts almost 2^64 bytes of one of these kinds on some
// NUMA node, because its uint64 subtraction of reserved memory and huge pages wraps around.
func (m *Model) Underflows(needs []Need) bool {
	for i := range needs {
		if m.endless[needs[i].Kind] {
			return true
		}
	}
	return false
}

func (m *Model) set(pos int, name string, size uint64, reserved map[string]uint64) {
	k, _ := m.Kind(name)
	at := m.at(k, pos)
	m.total[at], m.reserved[at], m.allocatable[at] = size, reserved[name], size-reserved[name]
	m.has[k] |= 1 << pos
	m.endless[k] = m.endless[k] || reserved[name] > size
}

// prefixSums returns the sums of the largest amounts: element i is the sum of the i largest. It
// returns nil if a sum overflows.
func prefixSums(amounts []uint64) []uint64 {
	sorted := slices.Clone(amounts)
	slices.Sort(sorted)
	slices.Reverse(sorted)
	sums := []uint64{0}
	for _, a := range sorted {
		sum := sums[len(sums)-1] + a
		if sum < a {
			return nil
		}
		sums = append(sums, sum)
	}
	return sums
}

// at returns the index of a kind on a NUMA node in tables such as allocatable.
func (m *Model) at(k Kind, pos int) int { return int(k)*m.space.Len() + pos }

func (m *Model) row(table []uint64, k Kind) []uint64 {
	n := m.space.Len()
	return table[int(k)*n : int(k)*n+n]
}

// Names returns the resource names of all kinds, ascending. A Kind is an index into this slice,
// which the caller must not change.
func (m *Model) Names() []string { return m.names }

// Kind returns the kind with the given resource name, and whether the machine has it.
func (m *Model) Kind(name string) (Kind, bool) {
	for i := range m.names {
		if m.names[i] == name {
			return Kind(i), true
		}
	}
	return 0, false
}

// Has returns the NUMA nodes that have a row for the kind in the kubelet's table.
func (m *Model) Has(k Kind) hint.Mask { return m.has[k] }

// Total returns the bytes of a kind that the NUMA node at a position has.
func (m *Model) Total(k Kind, pos int) uint64 { return m.total[m.at(k, pos)] }

// Kept returns the bytes of a kind that are reserved for the system on the NUMA node at a position.
func (m *Model) Kept(k Kind, pos int) uint64 { return m.reserved[m.at(k, pos)] }

// Allocatable returns the bytes of a kind that containers can have on the NUMA node at a position.
func (m *Model) Allocatable(k Kind, pos int) uint64 { return m.allocatable[m.at(k, pos)] }

// HugePages returns the resource name of huge pages of a size ("hugepages-2Mi"), as
// k8s.io/kubernetes/pkg/apis/core/v1/helper.HugePageResourceName spells it.
func HugePages(pageBytes uint64) string {
	const units = "KMGTPE"
	unit := -1
	for pageBytes != 0 && pageBytes%1024 == 0 && unit+1 < len(units) {
		pageBytes /= 1024
		unit++
	}
	name := "hugepages-" + strconv.FormatUint(pageBytes, 10)
	if unit >= 0 {
		name += units[unit:unit+1] + "i"
	}
	return name
}

// Misreserved adds up the Reserved amounts of all NUMA nodes. It returns a resource whose sum
// differs from want, and this sum in bytes. want has, by resource name, kubeReserved +
// systemReserved + the hard eviction threshold (validateReservedMemory). found is false if there is
// no such resource.
func Misreserved(nodes []Node, want map[string]uint64) (resource string, sum uint64, found bool) {
	sums := map[string]uint64{}
	for name := range want {
		sums[name] = 0
	}
	for i := range nodes {
		for name, bytes := range nodes[i].Reserved {
			sums[name] += bytes
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if sums[name] != want[name] {
			return name, sums[name], true
		}
	}
	return "", 0, false
}
