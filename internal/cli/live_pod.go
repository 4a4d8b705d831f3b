package cli

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// promised is the placement annotation in words.
type promised struct {
	// Sequence is the number of the Binding among the node's; Report that of the report it was decided on.
	Sequence   uint64            `json:"sequence"`
	Report     int64             `json:"report"`
	Certainty  string            `json:"certainty"`
	Guarantee  string            `json:"guarantee"`
	NUMANodes  string            `json:"numaNodes"`
	Containers []placedContainer `json:"containers"`
}

// holding is what a node's report says of a pod.
type holding struct {
	Report     int64             `json:"report"`
	AgeSeconds int64             `json:"ageSeconds"`
	State      string            `json:"state"` // admitted, ended, rejected, unknown or absent
	NUMANodes  string            `json:"numaNodes"`
	Alignment  string            `json:"alignment,omitempty"` // numa-node, package or machine; "" when nothing is held
	Containers []placedContainer `json:"containers,omitempty"`
}

// How a promise and a report compare.
const (
	promiseKept    = "kept"
	promiseOpen    = "not yet reported"
	promiseBroken  = "differs"
	promiseVerdict = "admitted as promised" // the CPUs were not promised
	stateAbsent    = "absent"
)

// machine returns the node's hardware; an empty one when it is not known.
func (n *liveNode) machine() *topology.Machine {
	if n == nil || n.spec == nil {
		return new(topology.Machine)
	}
	return n.spec.Machine
}

// promise puts a placement into words.
func (n *liveNode) promise(p *wire.Placement) *promised {
	view := node{machine: n.machine()}
	out := &promised{Sequence: p.Sequence, Report: p.Report, Certainty: p.Certainty.String(), Guarantee: p.Guarantee.String()}
	for i := range p.Decision.Containers {
		out.Containers = append(out.Containers, view.container(&p.Decision.Containers[i]))
	}
	out.NUMANodes = n.numaOf(allocationOf(&p.Decision)).String()
	return out
}

func allocationOf(d *placement.Decision) *placement.PodAllocation {
	out := &placement.PodAllocation{UID: d.UID}
	for _, c := range d.Containers {
		out.Containers = append(out.Containers, placement.ContainerAllocation{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Memory: c.Memory, Devices: c.Devices})
	}
	return out
}

// reported finds a pod in the report.
func (n *liveNode) reported(uid string) (*placement.PodAllocation, string) {
	if n == nil || n.report == nil {
		return nil, stateAbsent
	}
	i := slices.IndexFunc(n.report.Snapshot.Pods, func(p placement.PodAllocation) bool { return p.UID == uid })
	if i < 0 {
		return nil, stateAbsent
	}
	return &n.report.Snapshot.Pods[i], stateWord(string(n.report.Pods[i].State))
}

// stateWord is a state of the report in lower case; none is admitted.
func stateWord(s string) string {
	if s == "" {
		return "admitted"
	}
	return strings.ToLower(s)
}

// holding says what the report says of the pod; nil without a report.
func (n *liveNode) holding(uid string, s *survey) *holding {
	if n == nil || n.report == nil {
		return nil
	}
	p, state := n.reported(uid)
	out := &holding{Report: n.sequence(), AgeSeconds: seconds(s.now.Sub(n.heard)), State: state}
	if p == nil {
		return out
	}
	view := node{machine: n.machine()}
	for _, c := range p.Containers {
		d := placement.ContainerDecision{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Memory: c.Memory, Devices: c.Devices, Hint: placement.Hint{Any: true}}
		out.Containers = append(out.Containers, view.container(&d))
	}
	numa := n.numaOf(p)
	out.NUMANodes, out.Alignment = numa.String(), alignmentOf(n.machine(), numa)
	return out
}

// numaOf returns the NUMA nodes of all that a pod holds.
func (n *liveNode) numaOf(p *placement.PodAllocation) topology.NUMASet {
	view := node{machine: n.machine()}
	var out topology.NUMASet
	for i := range p.Containers {
		c := &p.Containers[i]
		out |= view.numaOf(&c.CPUs)
		for _, b := range c.Memory {
			out |= b.NUMA
		}
		for _, d := range c.Devices {
			out |= n.numaOfDevices(&d)
		}
	}
	return out
}

func (n *liveNode) numaOfDevices(d *placement.DeviceAllocation) (out topology.NUMASet) {
	if n == nil || n.report == nil {
		return 0
	}
	for _, pool := range n.report.Snapshot.Devices {
		for i := range pool.Devices {
			if pool.Resource == d.Resource && slices.Contains(d.IDs, pool.Devices[i].ID) {
				out |= pool.Devices[i].NUMA
			}
		}
	}
	return out
}

// alignmentOf says how far apart NUMA nodes lie, in the words of the agent's metric berth_agent_pinned_pods.
func alignmentOf(m *topology.Machine, held topology.NUMASet) string {
	switch held.Len() {
	case 0:
		return ""
	case 1:
		return "numa-node"
	}
	var cpus topology.CPUSet
	for i := range m.NUMANodes {
		if held.Has(m.NUMANodes[i].ID) {
			cpus = cpus.Or(&m.NUMANodes[i].CPUs)
		}
	}
	for i := range m.Packages {
		if cpus.IsSubsetOf(&m.Packages[i].CPUs) {
			return "package"
		}
	}
	return "machine"
}

// compare says how the promise turned out; "" where there is none, or no report to compare it with.
func (n *liveNode) compare(p *wire.Placement, found bool) string {
	if !found || n == nil || n.report == nil {
		return ""
	}
	held, state := n.reported(p.Decision.UID)
	switch {
	case held == nil:
		return promiseOpen
	case state != stateWord(""):
		return ""
	case p.Certainty != wire.Exact:
		return promiseVerdict
	case sameHolding(&p.Decision, held):
		return promiseKept
	}
	return promiseBroken
}

// sameHolding compares as the scheduler does: containers that hold nothing need not be listed, and memory of init
// containers that have finished is freed before anyone looks.
func sameHolding(d *placement.Decision, held *placement.PodAllocation) bool {
	var a, b placement.Decision
	for _, c := range d.Containers {
		var found placement.ContainerAllocation
		for _, h := range held.Containers {
			if h.Name == c.Name {
				found = h
			}
		}
		if c.Kind == placement.Init {
			c.Memory, found.Memory = nil, nil
		}
		a.Containers = append(a.Containers, c)
		b.Containers = append(b.Containers, placement.ContainerDecision{CPUs: found.CPUs, Memory: found.Memory, Devices: found.Devices})
	}
	return ledger.Same(&a, &b)
}

// asksText says what the pod asks for, container by container, as far as a kubelet could pin it.
func asksText(r *placement.Request) []string {
	var out []string
	for i := range r.Containers {
		c := &r.Containers[i]
		text := strconv.FormatFloat(float64(c.MilliCPU)/1000, 'f', -1, 64) + " CPU"
		for _, m := range c.Memory {
			text += ", " + roughBytes(m.Bytes)
			if m.Resource != string(corev1.ResourceMemory) {
				text += " of " + m.Resource
			}
		}
		for _, d := range c.Devices {
			text += ", " + strconv.FormatInt(d.Count, 10) + " " + d.Resource
		}
		name := placedContainer{Name: c.Name, Kind: kindNames[c.Kind]}
		out = append(out, name.label()+": "+text)
	}
	return out
}

// roughBytes prints an amount of memory in the largest binary unit that leaves a number from 1 on, with one decimal at most.
func roughBytes(n uint64) string {
	const units = "KMGTPE"
	v, unit := float64(n), -1
	for v >= 1024 && unit+1 < len(units) {
		v /= 1024
		unit++
	}
	if unit < 0 {
		return strconv.FormatUint(n, 10)
	}
	text := strconv.FormatFloat(float64(int64(v*10))/10, 'f', -1, 64)
	return text + units[unit:unit+1] + "i"
}
