package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/device"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// trial is one run through a kubelet's admission: copies of the books that an admission writes to, and room
// for hints and decisions. Trials are pooled, so that admission allocates nothing.
type trial struct {
	m *Model
	s *State
	r *Request
	d *Decision
	// rules are those that the node goes by for this request.
	rules Rules
	// held is what the pod holds already: it is admitted again after a restart of the kubelet. Mostly nil.
	held *PodAllocation
	// pods are those on the node; none when it counts as empty.
	pods []podRef

	cpus    cpuTrial
	memory  memoryTrial
	devices deviceTrial

	// lists is room for hints; the first used are the current container's, each of the resource in of.
	lists []hint.List
	of    []string
	used  int
	merge merger

	chance bool
	own    Decision // for Admit, which is not asked for one
	empty  Decision // for the trial on an empty node
}

type cpuTrial struct {
	shared   topology.CPUSet
	reusable topology.CPUSet
}

type memoryTrial struct {
	book  *memory.Book
	reuse memory.Reuse
	needs []memory.Need
	query memory.Query
}

// deviceTrial holds a slot for each resource of the request that the device manager manages.
type deviceTrial struct {
	slots []slot
	used  int
	// nodes are those of the devices given so far.
	nodes hint.Mask
}

type slot struct {
	pool *devicePool
	// inUse and reusable are this trial's; out and held are room.
	inUse, reusable, out, held device.Set
}

func newTrial(m *Model) *trial {
	t := &trial{m: m}
	if m.mem != nil {
		t.memory.book = m.mem.NewBook()
	}
	if m.space != nil {
		t.merge.init(m.space)
	}
	return t
}

// begin prepares the trial. With empty set the node counts as empty: only what plugins said remains.
func (t *trial) begin(s *State, r *Request, d *Decision, empty bool) {
	t.s, t.r, t.d, t.chance = s, r, d, false
	t.rules = t.m.rulesFor(r.Rules)
	books := s
	t.held, t.pods = nil, s.pods
	if empty {
		books, t.pods = t.m.empty, nil
	} else if len(s.pods) > 0 {
		t.held = s.pod(r.UID)
	}
	t.cpus = cpuTrial{shared: books.shared}
	if t.m.mem != nil {
		t.memory.book.CopyFrom(books.book)
		t.memory.reuse.Reset()
	}
	t.beginDevices(empty)
	if s.reuse.on && !empty {
		t.recall(&s.reuse)
	}
	if t.held != nil {
		t.dropLost()
	}
	t.resetDecision()
}

// end drops the references to the caller's values.
func (t *trial) end() {
	t.s, t.r, t.d, t.held, t.pods = nil, nil, nil, nil, nil
	for i := range t.devices.slots {
		t.devices.slots[i].pool = nil
	}
}

// resetDecision makes the decision fit the request, keeping the memory of its slices.
func (t *trial) resetDecision() {
	d, n := t.d, len(t.r.Containers)
	d.UID = t.r.UID
	d.Containers = slices.Grow(d.Containers[:0], n)[:n]
	for i := range d.Containers {
		c, r := &d.Containers[i], &t.r.Containers[i]
		c.Name, c.Kind, c.Hint = r.Name, r.Kind, Hint{Any: true}
		c.CPUs = topology.CPUSet{}
		c.Memory, c.Devices = c.Memory[:0], c.Devices[:0]
	}
}

// heldBy returns what container c holds already, nil for nothing.
func (t *trial) heldBy(c int) *ContainerAllocation {
	if t.held == nil {
		return nil
	}
	return t.held.container(t.r.Containers[c].Name)
}

// list returns the next list to be filled, of a resource.
func (t *trial) list(resource string) *hint.List {
	if t.used == len(t.lists) {
		t.lists = append(t.lists, t.m.space.NewList())
		t.of = append(t.of, "")
	}
	t.of[t.used] = resource
	t.used++
	return &t.lists[t.used-1]
}

// beginDevices makes slots for the managed resources that the request names.
func (t *trial) beginDevices(empty bool) {
	t.devices.used, t.devices.nodes = 0, 0
	if len(t.s.pools) == 0 {
		return
	}
	for i := range t.r.Containers {
		for j := range t.r.Containers[i].Devices {
			p := t.s.poolIndex(t.r.Containers[i].Devices[j].Resource)
			if p >= 0 && t.slot(t.s.pools[p].resource) == nil {
				t.openSlot(&t.s.pools[p], empty)
			}
		}
	}
}

func (t *trial) openSlot(p *devicePool, empty bool) {
	d := &t.devices
	if d.used == len(d.slots) {
		d.slots = append(d.slots, slot{})
	}
	s := &d.slots[d.used]
	d.used++
	s.pool = p
	s.inUse = append(s.inUse[:0], p.inUse...)
	if empty {
		clear(s.inUse)
	}
	words := len(p.inUse)
	for _, set := range [...]*device.Set{&s.reusable, &s.out, &s.held} {
		*set = slices.Grow((*set)[:0], words)[:words]
		clear(*set)
	}
}

// slot returns the slot of a resource, nil if it is not managed.
func (t *trial) slot(resource string) *slot {
	for i := range t.devices.slots[:t.devices.used] {
		if s := &t.devices.slots[i]; s.pool.resource == resource {
			return s
		}
	}
	return nil
}
