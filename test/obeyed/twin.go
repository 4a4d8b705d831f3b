package obeyed

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Twin answers whether a pod of one container fits a machine by trying every set of NUMA nodes, and
// every set of devices on it. It knows nothing of the engine, and no wishes for CPUs.
type Twin struct {
	Machine  *topology.Machine
	Reserved topology.CPUSet
	// Devices are those that Berth hands out, by resource.
	Devices map[string][]*topology.Device
}

// room is what a NUMA node has to give: CPUs that nobody has, CPU time, memory and huge pages.
type room struct{ own, milli, memory, huge uint64 }

func (r room) plus(o room) room {
	return room{r.own + min(o.own, o.milli/1000), r.milli + o.milli, r.memory + o.memory, r.huge + o.huge}
}

// Fits says whether the machine could take a pod of one container beside what these have.
func (t Twin) Fits(there []*placement.Decision, r *placement.Request) bool {
	now, taken := t.rooms(), map[string]bool{}
	for _, d := range there {
		t.take(now, taken, d)
	}
	least := t.narrowest(r, now, taken)
	switch r.Rules.Policy {
	case placement.PolicySingleNUMANode:
		return least == 1
	case placement.PolicyRestricted:
		return least > 0 && least <= t.narrowest(r, t.rooms(), nil)
	}
	return least > 0
}

// rooms is what the empty machine has.
func (t Twin) rooms() []room {
	out := make([]room, len(t.Machine.NUMANodes))
	for i := range out {
		n := &t.Machine.NUMANodes[i]
		cpus := n.CPUs.AndNot(&t.Reserved)
		out[i] = room{own: uint64(cpus.Len()), milli: 1000 * uint64(cpus.Len()), memory: n.MemoryBytes}
		for _, h := range n.HugePages {
			out[i].huge += h.PageBytes * h.Count
			out[i].memory -= h.PageBytes * h.Count
		}
	}
	return out
}

// take takes off what a decision has.
func (t Twin) take(now []room, taken map[string]bool, d *placement.Decision) {
	for i := range d.Containers {
		c := &d.Containers[i]
		for j := range now {
			n := &t.Machine.NUMANodes[j]
			own := n.CPUs.And(&c.CPUs)
			now[j].own -= uint64(own.Len())
			now[j].milli -= 1000 * uint64(own.Len())
			for _, s := range c.Shares {
				if s.NUMA == n.ID {
					now[j].milli -= uint64(s.MilliCPU)
				}
			}
			for _, b := range c.Memory {
				switch {
				case !b.NUMA.Has(n.ID):
				case b.Resource == "memory":
					now[j].memory -= b.Bytes
				default:
					now[j].huge -= b.Bytes
				}
			}
		}
		for _, a := range c.Devices {
			for _, id := range a.IDs {
				taken[id] = true
			}
		}
	}
}

// narrowest is on how few NUMA nodes there is room; 0: on none.
func (t Twin) narrowest(r *placement.Request, now []room, taken map[string]bool) (least int) {
	for set := uint(1); set < 1<<len(now); set++ {
		if width := bits.OnesCount(set); (least == 0 || width < least) && t.holds(r, now, set) && t.choose(r, taken, set, 0, nil) {
			least = width
		}
	}
	return least
}

func (t Twin) holds(r *placement.Request, now []room, set uint) bool {
	c := &r.Containers[0]
	var sum room
	for i := range now {
		if set&(1<<i) != 0 {
			sum = sum.plus(now[i])
		}
	}
	for _, q := range c.Memory {
		if q.Resource == "memory" && q.Bytes > sum.memory || q.Resource != "memory" && q.Bytes > sum.huge {
			return false
		}
	}
	own := c.MilliCPU%1000 == 0 && r.Guaranteed
	return sum.milli >= uint64(c.MilliCPU) && (!own || sum.own >= uint64(c.MilliCPU)/1000)
}

// choose says whether some choice of devices on the NUMA nodes, beside those of the first kinds, is
// as the pod wants it.
func (t Twin) choose(r *placement.Request, taken map[string]bool, set uint, k int, got [][]*topology.Device) bool {
	c := &r.Containers[0]
	if k == len(c.Devices) {
		return wrongDevices(&r.Rules.Devices, got) == ""
	}
	var free []*topology.Device
	for _, d := range t.Devices[c.Devices[k].Resource] {
		i := slices.IndexFunc(t.Machine.NUMANodes, func(n topology.NUMANode) bool { return n.ID == d.NUMA })
		if !taken[d.Address] && set&(1<<i) != 0 {
			free = append(free, d)
		}
	}
	for sub := uint(0); sub < 1<<len(free); sub++ {
		if int64(bits.OnesCount(sub)) != c.Devices[k].Count {
			continue
		}
		var mine []*topology.Device
		for i, d := range free {
			if sub&(1<<i) != 0 {
				mine = append(mine, d)
			}
		}
		if t.choose(r, taken, set, k+1, append(slices.Clone(got), mine)) {
			return true
		}
	}
	return false
}

// wrongDevices says how devices of several kinds are not as they were asked for; "" for nothing.
// What is preferred may be given up.
func wrongDevices(rules *placement.DeviceRules, got [][]*topology.Device) string {
	var each []map[string]bool
	all := map[string]bool{}
	for _, mine := range got {
		at, functions := map[string]bool{}, map[string]bool{}
		for _, d := range mine {
			where := d.Root
			if rules.Same == joint.SameSwitch || rules.Same == joint.OneSwitch {
				where = d.Switch
			}
			if where == "" && rules.SameHow == joint.Required {
				return d.Address + " hangs from none"
			}
			at[where], all[where] = true, true
			functions[cmp.Or(d.Physical, d.Address)] = true
		}
		if rules.OnePerFunction != 0 && len(functions) < len(mine) {
			return "two virtual functions of one card"
		}
		each = append(each, at)
	}
	if rules.SameHow != joint.Required {
		return ""
	}
	for _, at := range each {
		if !maps.Equal(at, all) {
			return fmt.Sprint("at ", slices.Sorted(maps.Keys(at)), " and others at ", slices.Sorted(maps.Keys(all)))
		}
	}
	if one := rules.Same == joint.OneRoot || rules.Same == joint.OneSwitch; one && len(all) > 1 {
		return fmt.Sprint("at ", slices.Sorted(maps.Keys(all)))
	}
	return ""
}

// Crooked says how a decision for a pod of one container is not as it was asked; "" for nothing.
func Crooked(m *topology.Machine, r *placement.Request, d *placement.Decision) string {
	c, q := &d.Containers[0], &r.Containers[0]
	nodes := c.Hint.NUMA
	for _, want := range q.Devices {
		i := slices.IndexFunc(c.Devices, func(a placement.DeviceAllocation) bool { return a.Resource == want.Resource })
		if want.Count > 0 && (i < 0 || int64(len(c.Devices[i].IDs)) != want.Count) {
			return fmt.Sprintf("%d of %s were asked, %v given", want.Count, want.Resource, c.Devices)
		}
	}
	var got [][]*topology.Device
	for _, a := range c.Devices {
		var mine []*topology.Device
		for _, id := range a.IDs {
			dev := m.Device(id)
			if dev == nil {
				return id + " is no device of the node"
			}
			if !nodes.Has(dev.NUMA) {
				return fmt.Sprintf("%s of NUMA node %d, and the container is on %s", id, dev.NUMA, nodes)
			}
			mine = append(mine, dev)
		}
		got = append(got, mine)
	}
	if r.Rules.Policy == placement.PolicySingleNUMANode && nodes.Len() != 1 {
		return "on NUMA nodes " + nodes.String() + " with single-numa-node"
	}
	return wrongDevices(&r.Rules.Devices, got)
}
