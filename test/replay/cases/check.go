package cases

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/topology"
)

// Limits of a case. They are far above any real machine, and bound the memory and the time that one
// line can cost.
const (
	maxNodes     = 1024
	maxDevices   = 1 << 16
	maxEvents    = 1 << 20
	maxCores     = 1 << 20
	maxDistances = 1024
)

// FieldError names a field with an absurd value.
type FieldError struct {
	// Field is the path from the root of the object: "machine.nodes[2].id".
	Field string
	Value string
	Want  string
}

func (e *FieldError) Error() string {
	return e.Field + ": " + clip.Quoted(e.Value) + ": want " + e.Want
}

func wrong(want, value, field string, args ...any) error {
	return &FieldError{Field: fmt.Sprintf(field, args...), Value: value, Want: want}
}

// Check returns the first absurd value as a *FieldError. It accepts values that only make a kubelet
// fail at its start.
func (c *Case) Check() error {
	if c.ID == "" {
		return wrong("a name", c.ID, "id")
	}
	if err := c.Machine.check(); err != nil {
		return err
	}
	if err := c.Config.check(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range c.Devices {
		if err := c.Devices[i].check(fmt.Sprintf("devices[%d]", i)); err != nil {
			return err
		}
		if r := c.Devices[i].Resource; seen[r] {
			return wrong("every resource once", r, "devices[%d].resource", i)
		}
		seen[c.Devices[i].Resource] = true
	}
	if len(c.Events) > maxEvents {
		return wrong(fmt.Sprintf("at most %d events", maxEvents), strconv.Itoa(len(c.Events)), "events")
	}
	for i := range c.Events {
		if err := c.Events[i].check(fmt.Sprintf("events[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) check() error {
	if len(m.Nodes) == 0 || len(m.Nodes) > maxNodes {
		return wrong(fmt.Sprintf("1 to %d nodes", maxNodes), strconv.Itoa(len(m.Nodes)), "machine.nodes")
	}
	if m.NumCores < 0 || m.NumCores > maxCores {
		return wrong(fmt.Sprintf("0 to %d", maxCores), strconv.Itoa(m.NumCores), "machine.numCores")
	}
	if m.NumSockets < 0 || m.NumSockets > maxCores {
		return wrong(fmt.Sprintf("0 to %d", maxCores), strconv.Itoa(m.NumSockets), "machine.numSockets")
	}
	nodes := map[topology.NUMAID]bool{}
	var cpus topology.CPUSet
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if nodes[n.ID] {
			return wrong("every node once", strconv.Itoa(int(n.ID)), "machine.nodes[%d].id", i)
		}
		nodes[n.ID] = true
		if err := n.check(i, &cpus); err != nil {
			return err
		}
	}
	return nil
}

// check checks node i and adds its CPUs to seen.
func (n *Node) check(i int, seen *topology.CPUSet) error {
	if n.Memory > math.MaxInt64 {
		return wrong("bytes below 2^63", strconv.FormatUint(n.Memory, 10), "machine.nodes[%d].memory", i)
	}
	if len(n.Distances) > maxDistances {
		return wrong(fmt.Sprintf("at most %d", maxDistances), strconv.Itoa(len(n.Distances)), "machine.nodes[%d].distances", i)
	}
	for j, h := range n.HugePages {
		hi, lo := bits.Mul64(h.SizeKB, 1024)
		hi2, lo := bits.Mul64(lo, h.Count)
		if h.SizeKB == 0 || hi != 0 || hi2 != 0 || lo > math.MaxInt64 {
			return wrong("pages of 1 kB and more, of less than 2^63 bytes together",
				fmt.Sprintf("%d pages of %d kB", h.Count, h.SizeKB), "machine.nodes[%d].hugepages[%d]", i, j)
		}
	}
	for j := range n.Cores {
		if len(n.Cores[j].Threads) == 0 {
			return wrong("a CPU", "", "machine.nodes[%d].cores[%d].threads", i, j)
		}
		for _, t := range n.Cores[j].Threads {
			if t >= topology.MaxCPUs || seen.Has(t) {
				return wrong(fmt.Sprintf("every CPU once, below %d", topology.MaxCPUs), strconv.Itoa(int(t)), "machine.nodes[%d].cores[%d].threads", i, j)
			}
			seen.Add(t)
		}
	}
	return nil
}

func (c *Config) check() error {
	if q := c.ReservedCPU; q != nil && (q.Sign() < 0 || q.Value() > maxCores) {
		return wrong(fmt.Sprintf("0 to %d CPUs", maxCores), q.String(), "config.reservedCPU")
	}
	for i, r := range c.ReservedMemory {
		for name, q := range r.Limits {
			if v, ok := q.AsInt64(); !ok || v < 0 {
				return wrong("whole bytes below 2^63", q.String(), "config.reservedMemory[%d].limits[%s]", i, name)
			}
		}
	}
	return nil
}

func (p *Pool) check(path string) error {
	switch {
	case p.Resource == "":
		return wrong("a resource name", "", "%s.resource", path)
	case p.Preferred != PreferNone && p.Preferred != PreferSorted && p.Preferred != PreferNVIDIA:
		return wrong(PreferNone+", "+PreferSorted+" or "+PreferNVIDIA, p.Preferred, "%s.preferred", path)
	case p.Points != nil && len(p.Points) != len(p.Devices)*len(p.Devices):
		return wrong("a number for each pair of devices", strconv.Itoa(len(p.Points))+" numbers", "%s.points", path)
	case len(p.Devices) > maxDevices:
		return wrong(fmt.Sprintf("at most %d devices", maxDevices), strconv.Itoa(len(p.Devices)), "%s.devices", path)
	}
	return p.checkDevices(path)
}

func (p *Pool) checkDevices(path string) error {
	seen := map[string]bool{}
	for i := range p.Devices {
		d := &p.Devices[i]
		if d.ID == "" || seen[d.ID] {
			return wrong("every device once, by a name", d.ID, "%s.devices[%d].id", path, i)
		}
		seen[d.ID] = true
		for _, n := range d.NUMA {
			if n >= topology.MaxNUMANodes {
				return wrong(fmt.Sprintf("NUMA ids below %d", topology.MaxNUMANodes), strconv.Itoa(int(n)), "%s.devices[%d].numa", path, i)
			}
		}
	}
	return nil
}

func (e *Event) check(path string) error {
	switch e.Type {
	case Admit:
		return e.checkPod(path)
	case Remove, Start:
		if e.UID == "" {
			return wrong("the UID of a pod", "", "%s.uid", path)
		}
	case Devices:
		if e.Pool == nil {
			return wrong("a pool", "", "%s.pool", path)
		}
		return e.Pool.check(path + ".pool")
	case Restart:
	default:
		return wrong("admit, remove, start, restart or devices", string(e.Type), "%s.type", path)
	}
	return nil
}

func (e *Event) checkPod(path string) error {
	if e.Pod == nil {
		return wrong("a pod", "", "%s.pod", path)
	}
	if e.Pod.UID == "" {
		return wrong("a UID", "", "%s.pod.metadata.uid", path)
	}
	if len(e.Pod.Spec.Containers) == 0 {
		return wrong("a container", "", "%s.pod.spec.containers", path)
	}
	return nil
}
