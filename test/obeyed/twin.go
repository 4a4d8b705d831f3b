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

// Twin finds out whether pods fit a machine by trying, for each container, every set of NUMA nodes
// and every set of devices there. It is independent of the engine, and does not support preferences
// for CPUs. Fits returns false in two cases that it cannot decide. In the first, several containers
// or pods must be on as few NUMA nodes as possible, and some need more than one. In the second,
// pods without a policy share CPUs or run init containers next to pods with exclusive CPUs.
type Twin struct {
	Machine  *topology.Machine
	Reserved topology.CPUSet
	// Devices are the devices that Berth assigns, by resource.
	Devices map[string][]*topology.Device
}

// room is a NUMA node's capacity or a request: exclusive CPUs, CPU time, memory and huge pages.
type room struct{ own, milli, memory, huge int64 }

func (r room) plus(o room) room {
	return room{r.own + o.own, r.milli + o.milli, r.memory + o.memory, r.huge + o.huge}
}

func (r room) minus(o room) room {
	return room{r.own - o.own, r.milli - o.milli, r.memory - o.memory, r.huge - o.huge}
}

func (r room) most(o room) room {
	return room{max(r.own, o.own), max(r.milli, o.milli), max(r.memory, o.memory), max(r.huge, o.huge)}
}

// short reports whether an amount is negative.
func (r room) short() bool { return r.own < 0 || r.milli < 0 || r.memory < 0 || r.huge < 0 }

// whole returns the room with at most as many exclusive CPUs as its CPU time allows.
func (r room) whole() room {
	r.own = min(r.own, r.milli/1000)
	return r
}

// part is a request that must be together on some NUMA nodes: a container, or a pod at its peak.
type part struct {
	kind    placement.ContainerKind
	need    room // milli is CPU time in addition to the exclusive CPUs
	devices []placement.DeviceRequest
}

// peak returns the maximum that the parts have at one time: sidecars together with all later
// containers, init containers one after another. A pod keeps the exclusive CPUs of a part that does
// not run.
func peak[T any](parts []T, of func(*T) (placement.ContainerKind, room)) room {
	var sidecars, init, apps room
	for i := range parts {
		switch kind, n := of(&parts[i]); kind {
		case placement.Sidecar:
			sidecars = sidecars.plus(n)
		case placement.Init:
			init = init.most(sidecars.plus(n))
		default:
			apps = apps.plus(n)
		}
	}
	return init.most(sidecars.plus(apps))
}

// partsOf are the parts of a pod.
func partsOf(r *placement.Request) (all []part) {
	for i := range r.Containers {
		all = append(all, partOf(&r.Containers[i], r.Guaranteed))
	}
	if !asOne(&r.Rules) {
		return all
	}
	one := part{need: peak(all, func(p *part) (placement.ContainerKind, room) { return p.kind, p.need })}
	var resources []string
	for i := range all {
		for _, q := range all[i].devices {
			if !slices.Contains(resources, q.Resource) {
				resources = append(resources, q.Resource)
			}
		}
	}
	slices.Sort(resources)
	for _, resource := range resources {
		n := peak(all, func(p *part) (placement.ContainerKind, room) { return p.kind, room{own: p.count(resource)} })
		one.devices = append(one.devices, placement.DeviceRequest{Resource: resource, Count: n.own})
	}
	return []part{one}
}

// partOf returns the request of a container.
func partOf(c *placement.ContainerRequest, guaranteed bool) part {
	p := part{kind: c.Kind, devices: c.Devices}
	if c.MilliCPU%1000 == 0 && guaranteed {
		p.need.own = c.MilliCPU / 1000
	} else {
		p.need.milli = c.MilliCPU
	}
	for _, q := range c.Memory {
		if q.Resource == "memory" {
			p.need.memory += int64(q.Bytes)
		} else {
			p.need.huge += int64(q.Bytes)
		}
	}
	return p
}

// asOne reports whether the policy applies to the pod as a whole, not to each container. The nodes'
// own policy is none.
func asOne(r *placement.Rules) bool {
	if exact(r) {
		return r.Scope != placement.ContainerScope
	}
	return r.Scope == placement.PodScope && r.Policy != placement.PolicyNone && r.Policy != placement.NodePolicy
}

// exact reports whether the pod asks for a number of NUMA nodes.
func exact(r *placement.Rules) bool { return r.NUMANodes > 0 || r.Devices.PerNode > 0 }

// numberOf returns the exact number of NUMA nodes for a part; 0 if any number is allowed, and -1 if
// none is.
func numberOf(r *placement.Rules, p *part) int {
	n := int(r.NUMANodes)
	for _, d := range p.devices {
		per := int64(r.Devices.PerNode)
		switch {
		case per == 0 || d.Count == 0:
		case d.Count%per != 0 || n > 0 && int(d.Count/per) != n:
			return -1
		default:
			n = int(d.Count / per)
		}
	}
	switch single := r.Policy == placement.PolicySingleNUMANode; {
	case single && n > 1:
		return -1
	case single && exact(r):
		return 1
	}
	return n
}

func (p *part) count(resource string) (n int64) {
	for _, q := range p.devices {
		if q.Resource == resource {
			n += q.Count
		}
	}
	return n
}

// Fits reports whether the machine could admit the pods, all of one policy, in addition to the
// existing decisions.
func (t Twin) Fits(there []*placement.Decision, pods ...*placement.Request) bool {
	now, taken := t.rooms(), map[string]bool{}
	for _, d := range there {
		t.take(now, taken, d)
	}
	for i := range now {
		now[i] = now[i].whole()
	}
	if exact(&pods[0].Rules) {
		parts := partsOf(pods[0])
		return len(pods) == 1 && len(parts) == 1 && t.fitsExactly(&pods[0].Rules, &parts[0], now, taken)
	}
	f := fitting{t: t, rooms: now, taken: taken}
	single := pods[0].Rules.Policy == placement.PolicySingleNUMANode
	if pods[0].Rules.Policy == placement.PolicyRestricted {
		single = true
		for _, r := range pods {
			parts := partsOf(r)
			for i := range parts {
				least := t.narrowest(&r.Rules, &parts[i], t.rooms(), nil)
				if len(pods)+len(parts) == 2 && least > 0 {
					now := t.narrowest(&r.Rules, &parts[i], now, taken)
					return now > 0 && now <= least
				}
				single = single && least == 1
			}
		}
		if !single {
			return false
		}
	}
	if !single {
		if mixes(pods) {
			return false
		}
		f.fold()
	}
	return !f.lacks(pods) && f.place(pods)
}

// fitting is a search for places for pods.
type fitting struct {
	t Twin
	// rooms has the room of each NUMA node, or one room for all of them.
	rooms []room
	taken map[string]bool
	steps int
}

// maxSteps bounds a search. A search that reaches the bound finds no places.
const maxSteps = 1 << 18

// fold merges all rooms into one, for pods that may use all NUMA nodes.
func (f *fitting) fold() {
	var sum room
	for _, r := range f.rooms {
		sum = sum.plus(r)
	}
	f.rooms = []room{sum}
}

// mixes reports whether some parts have exclusive CPUs, and others share CPU time or are init
// containers.
func mixes(pods []*placement.Request) bool {
	n, own, others := 0, false, false
	for _, r := range pods {
		for _, p := range partsOf(r) {
			n, own, others = n+1, own || p.need.own > 0, others || p.need.milli > 0 || p.kind == placement.Init
		}
	}
	return n > 1 && own && others
}

// lacks reports whether the sum of all rooms is too small.
func (f *fitting) lacks(pods []*placement.Request) bool {
	var sum, all room
	for _, r := range f.rooms {
		all = all.plus(r)
	}
	want := map[string]int64{}
	for _, r := range pods {
		parts := partsOf(r)
		n := peak(parts, func(p *part) (placement.ContainerKind, room) { return p.kind, p.need })
		n.milli += 1000 * n.own
		sum = sum.plus(n)
		for resource := range f.t.Devices {
			n := peak(parts, func(p *part) (placement.ContainerKind, room) { return p.kind, room{own: p.count(resource)} })
			want[resource] += n.own
		}
	}
	for resource, devices := range f.t.Devices {
		for _, d := range devices {
			if !f.taken[d.Address] {
				want[resource]--
			}
		}
		if want[resource] > 0 {
			return true
		}
	}
	return all.minus(sum).short()
}

// chosen is a place for a part.
type chosen struct {
	*part
	at      int
	devices []*topology.Device
}

// place finds places for the pods.
func (f *fitting) place(pods []*placement.Request) bool {
	if len(pods) == 0 {
		return true
	}
	parts := partsOf(pods[0])
	return f.assign(&pods[0].Rules, parts, nil, pods[1:])
}

// assign finds places for the remaining parts of a pod, then for other pods.
func (f *fitting) assign(rules *placement.Rules, parts []part, got []chosen, others []*placement.Request) bool {
	if f.steps++; f.steps > maxSteps {
		return false
	}
	if len(parts) == 0 {
		return f.beside(got, others)
	}
	for at := range f.rooms {
		c := chosen{part: &parts[0], at: at}
		if f.overdrawn(append(slices.Clone(got), c)) {
			continue
		}
		shut := maps.Clone(f.taken)
		for i := range got {
			if together(got[i].kind, c.kind) {
				for _, d := range got[i].devices {
					shut[d.Address] = true
				}
			}
		}
		nodes := uint(1) << at
		if len(f.rooms) == 1 {
			nodes = ^uint(0)
		}
		if f.t.choose(rules, c.part, shut, nodes, 0, nil, func(devices []*topology.Device) bool {
			c.devices = devices
			return f.assign(rules, parts[1:], append(slices.Clone(got), c), others)
		}) {
			return true
		}
	}
	return false
}

// together reports whether a container runs at the same time as one that is declared after it.
func together(before, after placement.ContainerKind) bool {
	return before == placement.Sidecar || before == placement.App && after == placement.App
}

// overdrawn reports whether some room is too small for the chosen parts.
func (f *fitting) overdrawn(got []chosen) bool {
	for at := range f.rooms {
		if f.rooms[at].minus(usedAt(got, at)).short() {
			return true
		}
	}
	return false
}

// usedAt returns how much of a room the parts use.
func usedAt(got []chosen, at int) room {
	n := peak(got, func(c *chosen) (placement.ContainerKind, room) {
		if c.at != at {
			return c.kind, room{}
		}
		return c.kind, c.need
	})
	n.milli += 1000 * n.own
	return n
}

// beside finds places for the other pods, after the chosen ones are taken.
func (f *fitting) beside(got []chosen, others []*placement.Request) bool {
	if len(others) == 0 {
		return true
	}
	rest := fitting{t: f.t, rooms: slices.Clone(f.rooms), taken: maps.Clone(f.taken), steps: f.steps}
	for at := range rest.rooms {
		rest.rooms[at] = rest.rooms[at].minus(usedAt(got, at))
		if len(rest.rooms) > 1 {
			rest.rooms[at] = rest.rooms[at].whole()
		}
	}
	for i := range got {
		for _, d := range got[i].devices {
			rest.taken[d.Address] = true
		}
	}
	found := rest.place(others)
	f.steps = rest.steps
	return found
}

// rooms returns the rooms of the empty machine.
func (t Twin) rooms() []room {
	out := make([]room, len(t.Machine.NUMANodes))
	for i := range out {
		n := &t.Machine.NUMANodes[i]
		cpus := n.CPUs.AndNot(&t.Reserved)
		out[i] = room{own: int64(cpus.Len()), milli: 1000 * int64(cpus.Len()), memory: int64(n.MemoryBytes)}
		for _, h := range n.HugePages {
			out[i].huge += int64(h.PageBytes * h.Count)
			out[i].memory -= int64(h.PageBytes * h.Count)
		}
	}
	return out
}

// take subtracts the resources of a decision.
func (t Twin) take(now []room, taken map[string]bool, d *placement.Decision) {
	var all topology.CPUSet
	for i := range d.Containers {
		all = all.Or(&d.Containers[i].CPUs)
		for _, a := range d.Containers[i].Devices {
			for _, id := range a.IDs {
				taken[id] = true
			}
		}
	}
	for j := range now {
		n := &t.Machine.NUMANodes[j]
		own := n.CPUs.And(&all)
		used := peak(d.Containers, func(c *placement.ContainerDecision) (placement.ContainerKind, room) {
			return c.Kind, heldBy(c, n.ID)
		})
		used.own = int64(own.Len())
		used.milli += 1000 * used.own
		now[j] = now[j].minus(used)
	}
}

// heldBy returns the CPU time and the memory that a container has on a NUMA node.
func heldBy(c *placement.ContainerDecision, id topology.NUMAID) (r room) {
	for _, s := range c.Shares {
		if s.NUMA == id {
			r.milli += s.MilliCPU
		}
	}
	for _, b := range c.Memory {
		switch {
		case !b.NUMA.Has(id):
		case b.Resource == "memory":
			r.memory += int64(b.Bytes)
		default:
			r.huge += int64(b.Bytes)
		}
	}
	return r
}

// narrowest returns the smallest number of NUMA nodes with room for a part; 0 if there is no room.
func (t Twin) narrowest(rules *placement.Rules, p *part, now []room, taken map[string]bool) (least int) {
	for set := uint(1); set < 1<<len(now); set++ {
		var sum room
		for i := range now {
			if set&(1<<i) != 0 {
				sum = sum.plus(now[i])
			}
		}
		need := p.need
		need.milli += 1000 * need.own
		if width := bits.OnesCount(set); (least == 0 || width < least) && !sum.minus(need).short() &&
			t.choose(rules, p, taken, set, 0, nil, func([]*topology.Device) bool { return true }) {
			least = width
		}
	}
	return least
}

// fitsExactly reports whether some set of as many NUMA nodes as a part asks for has room for it.
// Each NUMA node must give some of the first resource that the part requests, in the order CPUs,
// CPU time, huge pages, memory, devices.
func (t Twin) fitsExactly(rules *placement.Rules, p *part, now []room, taken map[string]bool) bool {
	n := numberOf(rules, p)
	if n == 0 {
		return t.narrowest(rules, p, now, taken) > 0 && t.narrowest(rules, p, now, taken) <= t.narrowest(rules, p, t.rooms(), nil)
	}
	const page = 2 << 20
	gives := func(r room) bool { return rules.Devices.PerNode > 0 }
	switch need := p.need; {
	case need.own > 0:
		gives = func(r room) bool { return r.own > 0 && need.own >= int64(n) }
	case need.milli > 0:
		gives = func(r room) bool { return r.milli > 0 && need.milli >= int64(n) }
	case need.huge > 0:
		gives = func(r room) bool { return r.huge >= page && (need.huge+page-1)/page >= int64(n) }
	case need.memory > 0:
		gives = func(r room) bool { return r.memory > 0 && need.memory >= int64(n) }
	}
	for set := uint(1); set < 1<<len(now); set++ {
		var sum room
		all := bits.OnesCount(set) == n
		for i := range now {
			if set&(1<<i) != 0 {
				sum, all = sum.plus(now[i]), all && gives(now[i])
			}
		}
		need := p.need
		need.milli += 1000 * need.own
		if all && !sum.minus(need).short() && t.choose(rules, p, taken, set, 0, nil, func([]*topology.Device) bool { return true }) {
			return true
		}
	}
	return false
}

// choose calls then with each suitable choice of devices on the NUMA nodes, together with the
// chosen devices of earlier kinds, until then returns true.
func (t Twin) choose(rules *placement.Rules, p *part, taken map[string]bool, set uint, k int, got [][]*topology.Device, then func([]*topology.Device) bool) bool {
	if k == len(p.devices) {
		return wrongDevices(&rules.Devices, got) == "" && then(slices.Concat(got...))
	}
	var free []*topology.Device
	for _, d := range t.Devices[p.devices[k].Resource] {
		i := slices.IndexFunc(t.Machine.NUMANodes, func(n topology.NUMANode) bool { return n.ID == d.NUMA })
		if !taken[d.Address] && set&(1<<i) != 0 {
			free = append(free, d)
		}
	}
	for sub := uint(0); sub < 1<<len(free); sub++ {
		if int64(bits.OnesCount(sub)) != p.devices[k].Count {
			continue
		}
		var mine []*topology.Device
		for i, d := range free {
			if sub&(1<<i) != 0 {
				mine = append(mine, d)
			}
		}
		if t.choose(rules, p, taken, set, k+1, append(slices.Clone(got), mine), then) {
			return true
		}
	}
	return false
}

// wrongDevices describes how devices of several kinds differ from the requirements; "" if they do
// not. Preferences do not count.
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
		on := map[topology.NUMAID]int{}
		for _, d := range mine {
			on[d.NUMA]++
		}
		for id, n := range on {
			if per := int(rules.PerNode); per > 0 && n != per {
				return fmt.Sprintf("devices on NUMA node %d: %d: want %d", id, n, per)
			}
		}
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

// Crooked describes how a decision differs from its pod's request; "" if it does not.
func Crooked(m *topology.Machine, r *placement.Request, d *placement.Decision) string {
	var nodes, held topology.NUMASet
	asPod, parts := asOne(&r.Rules), partsOf(r)
	for i := range d.Containers {
		c := &d.Containers[i]
		mine := heldOn(m, c)
		held |= mine
		got, why := devicesGiven(m, &r.Containers[i], c)
		if n := numberOf(&r.Rules, &parts[min(i, len(parts)-1)]); !asPod && why == "" && n != 0 && mine != 0 && mine.Len() != n {
			why = fmt.Sprintf("on NUMA nodes %s: want %d of them", mine, n)
		}
		switch {
		case why != "":
		case asPod:
			nodes |= c.Hint.NUMA
			continue
		case r.Rules.Policy == placement.PolicySingleNUMANode && c.Hint.NUMA.Len() > 1:
			why = "on NUMA nodes " + c.Hint.NUMA.String() + " with single-numa-node"
		default:
			why = wrongDevices(&r.Rules.Devices, got)
		}
		if why == "" {
			why = besideOthers(r, d, i)
		}
		if why != "" {
			return c.Name + ": " + why
		}
	}
	switch n := numberOf(&r.Rules, &parts[0]); {
	case !asPod:
		return ""
	case n != 0 && held.Len() != n:
		return fmt.Sprintf("on NUMA nodes %s: want %d of them for the whole pod", held, n)
	case r.Rules.Policy == placement.PolicySingleNUMANode && nodes.Len() > 1:
		return "on NUMA nodes " + nodes.String() + " with single-numa-node for the pod"
	}
	return wrongDevices(&r.Rules.Devices, byResource(m, d))
}

// heldOn returns the NUMA nodes on which a container has resources.
func heldOn(m *topology.Machine, c *placement.ContainerDecision) (nodes topology.NUMASet) {
	for i := range m.NUMANodes {
		if n := &m.NUMANodes[i]; n.CPUs.Intersects(&c.CPUs) {
			nodes = nodes.With(n.ID)
		}
	}
	for i := range c.Memory {
		nodes |= c.Memory[i].NUMA
	}
	for _, s := range c.Shares {
		nodes = nodes.With(s.NUMA)
	}
	for _, a := range c.Devices {
		for _, id := range a.IDs {
			if dev := m.Device(id); dev != nil {
				nodes = nodes.With(dev.NUMA)
			}
		}
	}
	return nodes
}

// devicesGiven returns the devices of a container by kind, and their differences from the request.
func devicesGiven(m *topology.Machine, q *placement.ContainerRequest, c *placement.ContainerDecision) (got [][]*topology.Device, why string) {
	for _, want := range q.Devices {
		i := slices.IndexFunc(c.Devices, func(a placement.DeviceAllocation) bool { return a.Resource == want.Resource })
		if want.Count > 0 && (i < 0 || int64(len(c.Devices[i].IDs)) != want.Count) {
			return nil, fmt.Sprintf("devices %v: want %d of %s", c.Devices, want.Count, want.Resource)
		}
	}
	for _, a := range c.Devices {
		var mine []*topology.Device
		for _, id := range a.IDs {
			dev := m.Device(id)
			if dev == nil {
				return nil, id + " is no device of the node"
			}
			if !c.Hint.NUMA.Has(dev.NUMA) {
				return nil, fmt.Sprintf("device %s is on NUMA node %d: want a NUMA node of the container, %s", id, dev.NUMA, c.Hint.NUMA)
			}
			mine = append(mine, dev)
		}
		got = append(got, mine)
	}
	return got, ""
}

// besideOthers returns a CPU or device that the i-th container shares with a container that runs at
// the same time.
func besideOthers(r *placement.Request, d *placement.Decision, i int) string {
	for j := range i {
		a, b := &d.Containers[j], &d.Containers[i]
		if !together(r.Containers[j].Kind, r.Containers[i].Kind) {
			continue
		}
		if a.CPUs.Intersects(&b.CPUs) {
			return "it has CPUs of " + a.Name
		}
		for k := range a.Devices {
			for l := range b.Devices {
				for _, id := range b.Devices[l].IDs {
					if slices.Contains(a.Devices[k].IDs, id) {
						return "it has " + id + " of " + a.Name
					}
				}
			}
		}
	}
	return ""
}

// byResource returns the devices of a pod by kind, each once.
func byResource(m *topology.Machine, d *placement.Decision) (got [][]*topology.Device) {
	ids := map[string][]string{}
	for i := range d.Containers {
		for _, a := range d.Containers[i].Devices {
			for _, id := range a.IDs {
				if !slices.Contains(ids[a.Resource], id) {
					ids[a.Resource] = append(ids[a.Resource], id)
				}
			}
		}
	}
	for _, list := range ids {
		var mine []*topology.Device
		for _, id := range list {
			mine = append(mine, m.Device(id))
		}
		got = append(got, mine)
	}
	return got
}
