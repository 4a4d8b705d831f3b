// Package stranded adds up what the NUMA nodes of a machine have, and says what of it is stranded:
// free, and of little use to pods that want all they ask for on one NUMA node. It is pure.
package stranded

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// The resources beside which others are stranded, as a Kubernetes ResourceName.
const (
	CPU    = "cpu"
	Memory = "memory"
)

// Amount is CPUs, bytes or devices that a pod could have to itself.
type Amount struct {
	Resource string `json:"resource,omitempty"`
	Free     uint64 `json:"free"`
	Total    uint64 `json:"total"`
}

// IsBytes says whether a resource is counted in bytes.
func IsBytes(resource string) bool {
	return resource == Memory || strings.HasPrefix(resource, "hugepages-")
}

// NUMANode is what one NUMA node has. Anywhere holds devices without a node.
type NUMANode struct {
	NUMA     topology.NUMAID `json:"numa"`
	Anywhere bool            `json:"anywhere,omitempty"`
	CPUs     *Amount         `json:"cpus,omitempty"`
	Memory   []Amount        `json:"memory,omitempty"`
	Devices  []Amount        `json:"devices,omitempty"`
}

// Node is a node as it is added up.
type Node struct {
	Machine *topology.Machine
	// Model says which CPUs are reserved, and who decides. nil: none is, and the kubelet does.
	Model    *placement.Model
	Snapshot *placement.Snapshot
	// PinsCPUs says that pods can have CPUs to themselves there.
	PinsCPUs bool
}

// NUMANodes adds a node up, by NUMA node.
func (n *Node) NUMANodes() []NUMANode {
	var out []NUMANode
	var reserved topology.CPUSet
	if n.Model != nil {
		reserved = n.Model.ReservedCPUs()
	}
	state := Decided(n.Model, n.Snapshot)
	for i := range n.Machine.NUMANodes {
		m := &n.Machine.NUMANodes[i]
		one := NUMANode{NUMA: m.ID, Memory: n.memoryOn(m.ID)}
		if n.PinsCPUs {
			one.CPUs = n.cpusOn(m, &reserved, state)
		}
		one.Devices = n.devices(func(d *placement.Device) bool { return d.NUMA.Has(m.ID) })
		out = append(out, one)
	}
	if nowhere := n.devices(func(d *placement.Device) bool { return d.NUMA == 0 }); len(nowhere) > 0 {
		out = append(out, NUMANode{Anywhere: true, Devices: nowhere})
	}
	return out
}

// cpusOn counts the CPUs of a NUMA node that are not reserved. state is nil where a kubelet
// decides.
func (n *Node) cpusOn(m *topology.NUMANode, reserved *topology.CPUSet, state *placement.State) *Amount {
	all, free := m.CPUs.AndNot(reserved), n.Snapshot.SharedCPUs.AndNot(reserved)
	out := &Amount{Free: uint64(all.AndLen(&free)), Total: uint64(all.Len())}
	if state != nil {
		out.Free = uint64(state.FreeCPUsOn(m))
	}
	return out
}

// Decided is a state as the engine has it; nil of nodes whose kubelet decides, where the shared
// CPUs are the ones that are free.
func Decided(m *placement.Model, snap *placement.Snapshot) *placement.State {
	if m == nil || !m.Decides() {
		return nil
	}
	state, err := m.StateOf(snap)
	if err != nil {
		return nil
	}
	return state
}

func (n *Node) memoryOn(numa topology.NUMAID) []Amount {
	var out []Amount
	for i := range n.Snapshot.Memory {
		if n.Snapshot.Memory[i].NUMA != numa {
			continue
		}
		for _, r := range n.Snapshot.Memory[i].Resources {
			if r.Allocatable > 0 {
				out = append(out, Amount{r.Resource, r.Free, r.Allocatable})
			}
		}
	}
	return out
}

// devices counts devices; the ones that are unhealthy are not free.
func (n *Node) devices(there func(*placement.Device) bool) []Amount {
	var out []Amount
	for i := range n.Snapshot.Devices {
		pool := &n.Snapshot.Devices[i]
		taken := n.taken(pool.Resource)
		a := Amount{Resource: pool.Resource}
		for j := range pool.Devices {
			d := &pool.Devices[j]
			if !there(d) {
				continue
			}
			a.Total++
			if !d.Unhealthy && !taken[d.ID] {
				a.Free++
			}
		}
		if a.Total > 0 {
			out = append(out, a)
		}
	}
	return out
}

func (n *Node) taken(resource string) map[string]bool {
	taken := map[string]bool{}
	for i := range n.Snapshot.Pods {
		for _, c := range n.Snapshot.Pods[i].Containers {
			for _, d := range c.Devices {
				for _, id := range d.IDs {
					taken[id] = taken[id] || d.Resource == resource
				}
			}
		}
	}
	return taken
}

// Amounts lists what a NUMA node has, CPUs first.
func (n *NUMANode) Amounts() []Amount {
	var out []Amount
	if n.CPUs != nil {
		out = append(out, Amount{CPU, n.CPUs.Free, n.CPUs.Total})
	}
	return append(append(out, n.Memory...), n.Devices...)
}

// Part is what of a resource is stranded on a NUMA node.
type Part struct {
	Amount
	// Stranded is how much of Free has too little beside it. 0: nothing.
	Stranded uint64
	// Beside is the CPUs, or the memory, that strand it; of the two the ones that strand more.
	Beside Amount
}

// Parts says how much of all that is free on a NUMA node is stranded: what has too few free CPUs,
// or too little free memory, beside it, in the proportion in which the NUMA node has both. Where 4
// GPUs and 60 CPUs belong together, 2 free GPUs want 30 free CPUs. A device counts from one on,
// CPUs and bytes from a tenth of what there is.
func (n *NUMANode) Parts() []Part {
	var out []Part
	all := n.Amounts()
	for _, a := range all {
		if a.Free > 0 {
			out = append(out, a.beside(all))
		}
	}
	return out
}

func (a Amount) beside(all []Amount) Part {
	p := Part{Amount: a}
	others := slices.DeleteFunc(slices.Clone(all), func(o Amount) bool {
		return o.Resource == a.Resource || o.Resource != CPU && o.Resource != Memory || o.Total == 0 || a.Total == 0
	})
	for _, other := range others {
		hi, lo := bits.Mul64(min(other.Free, other.Total), a.Total)
		usable, _ := bits.Div64(hi, lo, other.Total) // rounded down
		if usable >= a.Free || a.Free-usable <= p.Stranded || a.Free-usable < a.worthwhile() {
			continue
		}
		p.Stranded, p.Beside = a.Free-usable, other
	}
	return p
}

// worthwhile is how much of a resource counts: a device, or a tenth of CPUs or bytes.
func (a Amount) worthwhile() uint64 {
	if a.Resource == CPU || IsBytes(a.Resource) {
		return max(1, a.Total/10)
	}
	return 1
}
