// Package stranded counts the free resources of each NUMA node of a machine, and finds which of
// them are stranded. A free resource is stranded if a pod that needs all its resources on one NUMA
// node cannot use it, usually because too little of another resource is free there. The package has
// no side effects.
package stranded

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// The resources whose shortage strands other resources. The values are Kubernetes' resource names.
const (
	CPU    = "cpu"
	Memory = "memory"
)

// Amount has the total and the free number of CPUs, bytes or devices that pods can have
// exclusively.
type Amount struct {
	Resource string `json:"resource,omitempty"`
	Free     uint64 `json:"free"`
	Total    uint64 `json:"total"`
}

// IsBytes reports whether a resource is counted in bytes.
func IsBytes(resource string) bool {
	return resource == Memory || strings.HasPrefix(resource, "hugepages-")
}

// NUMANode has the resources of one NUMA node. If Anywhere is set, it has instead the devices that
// belong to no NUMA node.
type NUMANode struct {
	NUMA     topology.NUMAID `json:"numa"`
	Anywhere bool            `json:"anywhere,omitempty"`
	CPUs     *Amount         `json:"cpus,omitempty"`
	Memory   []Amount        `json:"memory,omitempty"`
	Devices  []Amount        `json:"devices,omitempty"`
}

// Node is the input of NUMANodes.
type Node struct {
	Machine *topology.Machine
	// Model has the reserved CPUs and the node's authority. If it is nil, no CPU is reserved and
	// the kubelet decides.
	Model    *placement.Model
	Snapshot *placement.Snapshot
	// PinsCPUs means that pods can have exclusive CPUs on the node.
	PinsCPUs bool
}

// NUMANodes returns the resources of each NUMA node. Devices without a NUMA node come last, in an
// entry with Anywhere.
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

// cpusOn counts the CPUs of a NUMA node that are not reserved. `state` is nil if a kubelet decides.
func (n *Node) cpusOn(m *topology.NUMANode, reserved *topology.CPUSet, state *placement.State) *Amount {
	all, free := m.CPUs.AndNot(reserved), n.Snapshot.SharedCPUs.AndNot(reserved)
	out := &Amount{Free: uint64(all.AndLen(&free)), Total: uint64(all.Len())}
	if state != nil {
		out.Free = uint64(state.FreeCPUsOn(m))
	}
	return out
}

// Decided returns the engine's state of a node where Berth decides. It returns nil if a kubelet
// decides, because the free CPUs are then the shared CPUs in the snapshot. It also returns nil if
// the snapshot is invalid.
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

// devices counts, by resource, the devices for which the callback returns true. Unhealthy devices
// are not free.
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

// Amounts lists the amounts of a NUMA node. CPUs come first.
func (n *NUMANode) Amounts() []Amount {
	var out []Amount
	if n.CPUs != nil {
		out = append(out, Amount{CPU, n.CPUs.Free, n.CPUs.Total})
	}
	return append(append(out, n.Memory...), n.Devices...)
}

// Part is a resource of a NUMA node, and how much of it is stranded.
type Part struct {
	Amount
	// Stranded is the stranded part of Free, or 0.
	Stranded uint64
	// Beside is the resource (CPUs or memory) of which too little is free to use all of Free. It is
	// the zero value if neither of them is the reason, for example if fewer devices remain than a
	// pod requests.
	Beside Amount
	// Rule describes the rule by which Stranded was computed.
	Rule string
}

// Shape is the request of one pod: whole CPUs, bytes of memory, and devices by resource.
type Shape struct {
	CPUs, Memory uint64
	Devices      map[string]uint64
}

// Wants describes what else pods need when they use a device. The zero value has no information.
type Wants struct {
	// PerDevice has, by resource, the number of free CPUs that each device needs (the scheduler's
	// argument cpusPerDevice).
	PerDevice map[string]int
	// Shapes are the requests of pods that wait, run, or have run recently.
	Shapes []Shape
}

// The texts of the rules.
const (
	ruleProportion = "memory per CPU of the NUMA node"
	ruleShapes     = "no waiting or recent pod could use it"
	ruleOne        = "no pod asks for it, so one CPU for each would be enough"
)

// Parts returns the free resources of a NUMA node with their stranded parts.
//
// For devices, it uses the first rule that applies. If w.PerDevice has a number for the resource,
// each free device needs this number of free CPUs. If some w.Shapes request the resource, Parts
// fills the NUMA node with pods of one such shape, and the devices that remain are stranded. Of
// several such shapes, Parts uses the one that leaves the fewest devices. Otherwise each free
// device needs one free CPU and one free byte of memory.
//
// CPUs are stranded if too little memory is free for them, memory is stranded if too few CPUs are
// free for it, and huge pages are stranded if too little of either is free. Pods are assumed to
// need these resources in the proportion of the NUMA node's totals. A stranded part of CPUs, memory
// or huge pages counts only if it is at least a tenth of the total.
func (n *NUMANode) Parts(w *Wants) []Part {
	var out []Part
	all := n.Amounts()
	for _, a := range all {
		switch {
		case a.Free == 0:
		case a.Resource == CPU || IsBytes(a.Resource):
			out = append(out, a.beside(all))
		default:
			out = append(out, n.device(a, w))
		}
	}
	return out
}

// device applies the rules of Parts to the devices of one resource.
func (n *NUMANode) device(a Amount, w *Wants) Part {
	if per := w.PerDevice[a.Resource]; per > 0 {
		return n.leaves(a, Shape{CPUs: uint64(per), Devices: map[string]uint64{a.Resource: 1}}, fmt.Sprintf("cpusPerDevice: %d", per))
	}
	var best *Part
	for _, s := range w.Shapes {
		if s.Devices[a.Resource] == 0 {
			continue
		}
		if p := n.leaves(a, s, ruleShapes); best == nil || p.Stranded < best.Stranded {
			best = &p
		}
	}
	if best != nil {
		return *best
	}
	return n.leaves(a, Shape{CPUs: 1, Memory: 1, Devices: map[string]uint64{a.Resource: 1}}, ruleOne)
}

// leaves places as many pods of the shape s as fit; the devices that remain are stranded. If the
// shape requests more devices than the NUMA node has, it is reduced in proportion.
func (n *NUMANode) leaves(a Amount, s Shape, rule string) Part {
	each, cpus, memory := s.Devices[a.Resource], s.CPUs, s.Memory
	if each > a.Total {
		share := func(v uint64) uint64 {
			hi, lo := bits.Mul64(v, a.Total)
			part, _ := bits.Div64(hi, lo, each)
			return part
		}
		each, cpus, memory = a.Total, share(cpus), share(memory)
	}
	copies, by := a.Free/each, Amount{}
	limit := func(has *Amount, resource string, wants uint64) {
		if has != nil && wants > 0 && has.Free/wants < copies {
			copies, by = has.Free/wants, Amount{resource, has.Free, has.Total}
		}
	}
	limit(n.CPUs, CPU, cpus)
	if at := slices.IndexFunc(n.Memory, func(m Amount) bool { return m.Resource == Memory }); at >= 0 {
		limit(&n.Memory[at], Memory, memory)
	}
	return Part{a, a.Free - copies*each, by, rule}
}

func (a Amount) beside(all []Amount) Part {
	p := Part{Amount: a, Rule: ruleProportion}
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

func (a Amount) worthwhile() uint64 { return max(1, a.Total/10) }
