package survey

import (
	"cmp"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Node is what a node has, and what is to be known of it.
type Node struct {
	Name           string `json:"name"`
	Authority      string `json:"authority,omitempty"`
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	CPUManager     string `json:"cpuManager,omitempty"`
	MemoryManager  string `json:"memoryManager,omitempty"`
	Policy         string `json:"policy,omitempty"`
	Scope          string `json:"scope,omitempty"`
	// Guarantee is what the scheduler can promise there: full, amounts or none.
	Guarantee string `json:"guarantee"`
	// Source is the kind of the report, where it is not an agent's: Numatopology or
	// NodeResourceTopology.
	Source string `json:"source,omitempty"`
	// Pods are those in the report that have not ended; InFlight those that are bound and in no
	// report yet.
	Pods     int   `json:"pods"`
	InFlight int   `json:"inFlight"`
	Report   int64 `json:"report,omitempty"`
	// AgeSeconds is since the agent's last sign of life.
	AgeSeconds int64    `json:"ageSeconds,omitempty"`
	Trouble    *Trouble `json:"trouble,omitempty"`
	// Warnings say what is doubtful about a node, whether or not it is in trouble.
	Warnings []Trouble `json:"warnings,omitempty"`
	// Conditions are those of the report and of the Node that say something is wrong:
	// TYPE=STATUS(REASON).
	Conditions []string `json:"conditions,omitempty"`
	// Gone: a watch saw it go.
	Gone      bool       `json:"gone,omitempty"`
	NUMANodes []NUMANode `json:"numaNodes,omitempty"`
	// Held is what Reservations hold there, for pods to come, by name and NUMA node.
	Held []Held `json:"held,omitempty"`
	// Given is what its pods have of resources that providers hand out.
	Given []Given `json:"given,omitempty"`
	// Holders are who has its CPUs; only of nodes that were asked for by name.
	Holders []Holder `json:"holders,omitempty"`
}

// NUMANode is what one NUMA node has, after everything that is on its way. Anywhere holds devices
// without a node.
type NUMANode struct {
	NUMA     topology.NUMAID `json:"numa"`
	Anywhere bool            `json:"anywhere,omitempty"`
	CPUs     *Amount         `json:"cpus,omitempty"`
	Memory   []Amount        `json:"memory,omitempty"`
	Devices  []Amount        `json:"devices,omitempty"`
}

// Amount is CPUs, bytes or devices that a pod could have to itself.
type Amount struct {
	Resource string `json:"resource,omitempty"`
	Free     uint64 `json:"free"`
	Total    uint64 `json:"total"`
}

// Nodes adds all nodes up, by name.
func (s *Survey) Nodes() []Node {
	names := s.Names()
	all := make([]Node, len(names))
	inParallel(len(names), func(i int) { all[i] = s.nodes[names[i]].summary(s.Now) })
	return all
}

// summary adds a node up.
func (n *node) summary(now time.Time) Node {
	out := Node{Name: n.name, Guarantee: n.guarantee().String(), Report: n.sequence(), Trouble: n.trouble, Warnings: n.warnings(), Conditions: n.conditions(), Given: n.given}
	if n.coarse() {
		out.Source = n.reading.Source.Kind
	}
	if spec := n.spec(); spec != nil {
		c := &spec.Config
		out.Authority, out.KubeletVersion = string(spec.Authority), spec.KubeletVersion
		out.CPUManager, out.MemoryManager = cmp.Or(c.CPUManagerPolicy, "none"), cmp.Or(c.MemoryManagerPolicy, "None")
		out.Policy, out.Scope = cmp.Or(c.TopologyManagerPolicy, "none"), cmp.Or(c.TopologyManagerScope, "container")
		if m := n.reading.Kind.Model; m != nil && m.Decides() {
			out.Policy, out.Scope = m.Rules().Policy.String(), m.Rules().Scope.String()
		}
	}
	if r := n.report(); r != nil {
		out.AgeSeconds = Seconds(now.Sub(n.heard))
		for i := range r.Pods {
			if r.Pods[i].State == "" {
				out.Pods++
			}
		}
	}
	if n.account == nil {
		return out
	}
	out.InFlight = n.inFlight
	snap := n.snapshot()
	out.NUMANodes, out.Held = n.amounts(&snap), n.holds()
	return out
}

// amounts adds up a state by NUMA node.
func (n *node) amounts(snap *placement.Snapshot) []NUMANode {
	var out []NUMANode
	pins := n.spec().Config.CPUManagerPolicy == "static" || n.decides()
	reserved := n.reading.Kind.Model.ReservedCPUs()
	free := snap.SharedCPUs.AndNot(&reserved)
	state := n.obeyed(snap)
	for i := range n.machine().NUMANodes {
		m := &n.machine().NUMANodes[i]
		one := NUMANode{NUMA: m.ID, Memory: memoryOn(snap, m.ID)}
		if pins {
			all := m.CPUs.AndNot(&reserved)
			one.CPUs = &Amount{Free: uint64(all.AndLen(&free)), Total: uint64(all.Len())}
		}
		if state != nil {
			one.CPUs.Free = uint64(state.FreeCPUsOn(m))
		}
		one.Devices = devicesOn(snap, func(d *placement.Device) bool { return d.NUMA.Has(m.ID) })
		out = append(out, one)
	}
	if nowhere := devicesOn(snap, func(d *placement.Device) bool { return d.NUMA == 0 }); len(nowhere) > 0 {
		out = append(out, NUMANode{Anywhere: true, Devices: nowhere})
	}
	return out
}

// obeyed is a state as the engine has it; nil of nodes whose kubelet decides, where the shared CPUs
// are those that are free.
func (n *node) obeyed(snap *placement.Snapshot) *placement.State {
	if !n.decides() {
		return nil
	}
	state, err := n.reading.Kind.Model.StateOf(snap)
	if err != nil {
		return nil
	}
	return state
}

func memoryOn(snap *placement.Snapshot, numa topology.NUMAID) []Amount {
	var out []Amount
	for i := range snap.Memory {
		if snap.Memory[i].NUMA != numa {
			continue
		}
		for _, r := range snap.Memory[i].Resources {
			if r.Allocatable > 0 {
				out = append(out, Amount{r.Resource, r.Free, r.Allocatable})
			}
		}
	}
	return out
}

// devicesOn counts devices; those that are unhealthy are not free.
func devicesOn(snap *placement.Snapshot, there func(*placement.Device) bool) []Amount {
	var out []Amount
	for i := range snap.Devices {
		pool := &snap.Devices[i]
		taken := takenOf(snap, pool.Resource)
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

func takenOf(snap *placement.Snapshot, resource string) map[string]bool {
	taken := map[string]bool{}
	for i := range snap.Pods {
		for _, c := range snap.Pods[i].Containers {
			for _, d := range c.Devices {
				for _, id := range d.IDs {
					taken[id] = taken[id] || d.Resource == resource
				}
			}
		}
	}
	return taken
}
