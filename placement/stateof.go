package placement

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/device"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Snapshot returns the state as plain data. The Snapshot and the State share the allocations of
// pods, which are never changed.
func (s *State) Snapshot() Snapshot {
	snap := Snapshot{SharedCPUs: s.shared}
	for i := range s.pools {
		if s.pools[i].registered {
			p := s.pools[i].source
			p.Devices = slices.Clone(p.Devices)
			snap.Devices = append(snap.Devices, p)
		}
	}
	for _, p := range s.byOrder() {
		snap.Pods = append(snap.Pods, PodAllocation{UID: p.UID, Whole: p.Whole, Containers: slices.Clone(p.Containers)})
	}
	if s.book != nil {
		for pos := range s.m.space.Len() {
			snap.Memory = append(snap.Memory, s.table(pos))
		}
	}
	return snap
}

// table returns the memory manager's record of the NUMA node at a position.
func (s *State) table(pos int) MemoryTable {
	m := s.m.mem
	n, cells := s.book.Group(pos)
	t := MemoryTable{NUMA: s.m.space.ID(pos), Assignments: n, Cells: s.m.expand(cells)}
	for k, name := range m.Names() {
		if kind := memory.Kind(k); m.Has(kind).Has(pos) {
			t.Resources = append(t.Resources, MemoryAmounts{Resource: name, Allocatable: m.Allocatable(kind, pos),
				Reserved: m.Reserved(s.book, kind, pos), Free: m.Free(s.book, kind, pos)})
		}
	}
	return t
}

// StateOf converts a Snapshot to a State. It returns a *StateError for contradictions: a CPU or
// device that is held twice, CPUs that are neither shared nor held, memory that does not add up. If
// SharedCPUs is empty and no pod has exclusive CPUs, or if Memory is nil and no pod has memory
// blocks, StateOf assumes that the kubelet has not written the checkpoint yet.
func (m *Model) StateOf(snap *Snapshot) (*State, error) {
	s := m.NewState()
	for i := range snap.Pods {
		if err := s.restorePod(&snap.Pods[i]); err != nil {
			return nil, err
		}
	}
	for _, restore := range [...]func(*Snapshot) error{s.books().restore, s.restoreDevices} {
		if err := restore(snap); err != nil {
			return nil, err
		}
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *State) restorePod(p *PodAllocation) error {
	if p.UID == "" {
		return contradiction("pods[].uid", "", "a pod's UID")
	}
	if s.Has(p.UID) {
		return contradiction("pods["+p.UID+"]", p.UID, "each pod once")
	}
	pod := &PodAllocation{UID: p.UID, Whole: p.Whole.clone(), Containers: slices.Clone(p.Containers)}
	if i := pod.NamedTwice(); i >= 0 {
		c := &pod.Containers[i]
		return contradiction(containerField(pod, c, "name"), c.Name, "each container once")
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if c.Kind > Sidecar {
			return contradiction(containerField(pod, c, "kind"), strconv.Itoa(int(c.Kind)), "App, Init or Sidecar")
		}
		*c = c.clone()
		for j := range c.Devices {
			slices.Sort(c.Devices[j].IDs)
		}
	}
	s.put(pod)
	return nil
}

// fewContainers is the largest number of containers for which comparing all pairs of names is
// faster than building a set.
const fewContainers = 16

// NamedTwice returns the index of the first container that has the name of an earlier container, or
// -1. A report may have tens of thousands of containers, so the time must not grow with the square
// of their number.
func (p *PodAllocation) NamedTwice() int {
	var seen map[string]bool
	if len(p.Containers) > fewContainers {
		seen = make(map[string]bool, len(p.Containers))
	}
	for i := range p.Containers {
		name := p.Containers[i].Name
		if seen[name] {
			return i
		}
		if seen != nil {
			seen[name] = true
			continue
		}
		for j := range i {
			if p.Containers[j].Name == name {
				return i
			}
		}
	}
	return -1
}

func (b kubeletBooks) restore(snap *Snapshot) error {
	if err := b.restoreCPUs(snap); err != nil {
		return err
	}
	return b.restoreMemory(snap)
}

func (b kubeletBooks) restoreCPUs(snap *Snapshot) error {
	s, held := b.s, topology.CPUSet{}
	for i := range s.pods {
		own := s.pods[i].pod.CPUs()
		held = held.Or(&own)
	}
	if s.m.cpus.topology == nil {
		if !held.IsEmpty() {
			return contradiction("pods", "exclusive CPUs "+held.String(), "none without the static CPU manager")
		}
		return nil
	}
	if !snap.SharedCPUs.IsEmpty() || !held.IsEmpty() {
		s.shared = snap.SharedCPUs
	}
	return nil
}

func (b kubeletBooks) restoreMemory(snap *Snapshot) error {
	m := b.s.m
	if m.mem == nil {
		return b.s.holdsNoMemory()
	}
	if snap.Memory == nil {
		return nil
	}
	var seen topology.NUMASet
	for i := range snap.Memory {
		if err := b.restoreTable(&snap.Memory[i]); err != nil {
			return err
		}
		seen = seen.With(snap.Memory[i].NUMA)
	}
	if seen != m.nodes || len(snap.Memory) != m.nodes.Len() {
		return contradiction("memory", seen.String(), "one table for each of the NUMA nodes "+m.nodes.String())
	}
	return nil
}

// holdsNoMemory returns an error if a pod has memory blocks.
func (t *podTable) holdsNoMemory() error {
	const want = "no memory blocks, because the memory manager's policy is not Static"
	for i := range t.pods {
		pod := t.pods[i].pod
		if w := pod.Whole; w != nil && len(w.Memory) > 0 {
			return contradiction("pods["+pod.UID+"].memory", w.Memory[0].Resource, want)
		}
		for j := range pod.Containers {
			if c := &pod.Containers[j]; len(c.Memory) > 0 {
				return contradiction(containerField(pod, c, "memory"), c.Memory[0].Resource, want)
			}
		}
	}
	return nil
}

func (b kubeletBooks) restoreTable(t *MemoryTable) error {
	m, book := b.s.m, b.s.book
	field := "memory[" + strconv.Itoa(int(t.NUMA)) + "]"
	pos, ok := m.space.Position(t.NUMA)
	if !ok {
		return contradiction(field, strconv.Itoa(int(t.NUMA)), "one of the NUMA nodes "+m.nodes.String())
	}
	const most = 1 << 30
	if t.Cells&^m.nodes != 0 || t.Assignments < 0 || t.Assignments > most {
		return contradiction(field, fmt.Sprintf("assignments %d in group {%s}", t.Assignments, t.Cells),
			fmt.Sprintf("0 to %d assignments, in a group with no NUMA nodes other than {%s}", most, m.nodes))
	}
	book.SetGroup(pos, t.Assignments, m.compact(t.Cells))
	var rows int
	for i := range t.Resources {
		r := &t.Resources[i]
		k, ok := m.mem.Kind(r.Resource)
		if !ok || !m.mem.Has(k).Has(pos) {
			return contradiction(field+"."+r.Resource, r.Resource, "a kind of memory that the node has")
		}
		if r.Allocatable != m.mem.Allocatable(k, pos) {
			return contradiction(field+"."+r.Resource, strconv.FormatUint(r.Allocatable, 10)+" bytes allocatable",
				strconv.FormatUint(m.mem.Allocatable(k, pos), 10)+", by machine and configuration")
		}
		m.mem.SetAmounts(book, k, pos, memory.Amounts{Reserved: r.Reserved, Free: r.Free})
		rows++
	}
	for k := range m.mem.Names() {
		if m.mem.Has(memory.Kind(k)).Has(pos) {
			rows--
		}
	}
	if rows != 0 {
		return contradiction(field, strconv.Itoa(len(t.Resources))+" rows", "one row for each kind of memory that the node has")
	}
	return nil
}

func (s *State) restoreDevices(snap *Snapshot) error {
	for i := range snap.Devices {
		p := &snap.Devices[i]
		if s.pools.index(p.Resource) >= 0 {
			return contradiction("devices["+p.Resource+"]", p.Resource, "each resource once")
		}
		if p.Preference >= device.Preferences {
			return contradiction("devices["+p.Resource+"].preference", strconv.Itoa(int(p.Preference)), "a known preference")
		}
		ids := map[string]bool{}
		for _, d := range p.Devices {
			if ids[d.ID] {
				return contradiction("devices["+p.Resource+"]", d.ID, "each device once")
			}
			ids[d.ID] = true
		}
		s.setPool(*p, true)
	}
	for i := range s.pods {
		for _, c := range s.pods[i].pod.Containers {
			for _, a := range c.Devices {
				if s.pools.index(a.Resource) < 0 {
					s.setPool(DevicePool{Resource: a.Resource}, false)
				}
			}
		}
	}
	return nil
}
