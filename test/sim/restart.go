package sim

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// RestartError explains why a kubelet does not start with its checkpoints.
type RestartError struct {
	// Manager is "cpu" or "memory".
	Manager string
	Problem string
	// Crash is true if the kubelet crashes instead of logging the error.
	Crash bool
}

func (e *RestartError) Error() string { return e.Manager + " manager: " + e.Problem }

// Restart validates the state as the managers of a starting kubelet validate their checkpoints
// (validateState). If the kubelet starts, it admits its pods again in their order: Decide, then
// Commit, or Release if it refuses. The error is a *RestartError.
func Restart(m *placement.Model, s *placement.State) error {
	books, start := s.Snapshot(), m.Startup()
	if start.CPUPolicy == "static" {
		if err := restartCPUs(&start, &books); err != nil {
			return &RestartError{Manager: "cpu", Problem: err.Error()}
		}
	}
	if err := restartMemory(&books); err != nil {
		return err
	}
	if !books.SharedCPUs.IsEmpty() || start.CPUs.IsEmpty() {
		return nil
	}
	fresh, err := m.StateOf(&books)
	if err == nil {
		s.CopyFrom(fresh)
	}
	return err
}

// restartCPUs imitates cpumanager's validateState. An empty default set without assignments is a
// new checkpoint.
func restartCPUs(start *placement.Startup, books *placement.Snapshot) error {
	held, clash := heldCPUs(books)
	if books.SharedCPUs.IsEmpty() {
		if !held.IsEmpty() {
			return fmt.Errorf("default cpuset cannot be empty")
		}
		return nil
	}
	reserved := start.Reserved
	shared := reserved.And(&books.SharedCPUs)
	switch known := books.SharedCPUs.Or(&held); {
	case start.StrictReservation && !shared.IsEmpty():
		return fmt.Errorf("some of strictly reserved cpus: %q are present in defaultCpuSet: %q", shared, books.SharedCPUs)
	case !start.StrictReservation && shared != reserved:
		return fmt.Errorf("not all reserved cpus: %q are present in defaultCpuSet: %q", reserved, books.SharedCPUs)
	case clash != "":
		return fmt.Errorf("%s overlaps with default cpuset %q", clash, books.SharedCPUs)
	case known != start.CPUs:
		return fmt.Errorf("current set of available CPUs %q doesn't match with CPUs in state %q", start.CPUs, known)
	}
	return nil
}

// heldCPUs returns the union of all exclusive CPUs. clash is a container that holds shared CPUs, or
// "".
func heldCPUs(books *placement.Snapshot) (held topology.CPUSet, clash string) {
	for i := range books.Pods {
		p := &books.Pods[i]
		if p.Whole != nil {
			held = held.Or(&p.Whole.CPUs)
		}
		for j := range p.Containers {
			c := &p.Containers[j]
			held = held.Or(&c.CPUs)
			if clash == "" && c.CPUs.Intersects(&books.SharedCPUs) {
				clash = fmt.Sprintf("pod: %s, container: %s cpuset: %q", p.UID, c.Name, c.CPUs)
			}
		}
	}
	return held, clash
}

// restartMemory compares the memory manager's state with expectedMemory: assignments and groups by
// node, and free and reserved memory by group (areMachineStatesEqual).
func restartMemory(books *placement.Snapshot) error {
	expected := expectedMemory(books)
	for i := range books.Memory {
		got, want := &books.Memory[i], &expected[i]
		if got.Assignments != want.Assignments || got.Cells != want.Cells {
			return differs("NUMA node %d has %d assignments in group {%s}, its blocks make %d in group {%s}",
				got.NUMA, got.Assignments, got.Cells, want.Assignments, want.Cells)
		}
		for _, r := range got.Resources {
			if err := compareGroup(books.Memory, expected, r.Resource, got.Cells); err != nil {
				return err
			}
		}
	}
	return nil
}

func differs(format string, a ...any) error {
	return &RestartError{Manager: "memory", Problem: "the expected machine state is different from the real one: " + fmt.Sprintf(format, a...)}
}

// expectedMemory allocates the blocks of all pods on an empty machine. Each block is taken from its
// lowest node first.
func expectedMemory(books *placement.Snapshot) []placement.MemoryTable {
	out := slices.Clone(books.Memory)
	for i := range out {
		out[i].Assignments, out[i].Cells = 0, topology.NewNUMASet(out[i].NUMA)
		out[i].Resources = slices.Clone(out[i].Resources)
		for j := range out[i].Resources {
			r := &out[i].Resources[j]
			r.Free, r.Reserved = r.Allocatable, 0
		}
	}
	for i := range books.Pods {
		for b := range books.Pods[i].Blocks() {
			left := b.Bytes
			for j := range out {
				if !b.NUMA.Has(out[j].NUMA) {
					continue
				}
				out[j].Assignments++
				out[j].Cells = b.NUMA
				if r := row(&out[j], b.Resource); r != nil {
					taken := min(left, r.Free)
					r.Free, r.Reserved, left = r.Free-taken, r.Reserved+taken, left-taken
				}
			}
		}
	}
	return out
}

func row(t *placement.MemoryTable, resource string) *placement.MemoryAmounts {
	for i := range t.Resources {
		if t.Resources[i].Resource == resource {
			return &t.Resources[i]
		}
	}
	return nil
}

// compareGroup compares the amounts of one resource on a group of nodes. The kubelet looks the
// resource up on all of them, and crashes if a node does not have it.
func compareGroup(got, want []placement.MemoryTable, resource string, cells topology.NUMASet) error {
	var free, reserved [2]uint64
	for i := range got {
		if !cells.Has(got[i].NUMA) {
			continue
		}
		for k, tables := range [2][]placement.MemoryTable{got, want} {
			r := row(&tables[i], resource)
			if r == nil {
				return &RestartError{Manager: "memory", Crash: true, Problem: fmt.Sprintf("NUMA nodes %s are a group, and NUMA node %d of them has no %s", cells, tables[i].NUMA, resource)}
			}
			free[k], reserved[k] = free[k]+r.Free, reserved[k]+r.Reserved
		}
	}
	if free[0] != free[1] || reserved[0] != reserved[1] {
		return differs("NUMA nodes %s have %d bytes of %s free and %d reserved, their blocks leave %d and %d", cells, free[0], resource, reserved[0], free[1], reserved[1])
	}
	return nil
}

// Mixed reports if memory of a NUMA node belongs to blocks of different groups. The kubelet's
// best-effort policy can cause this. The result of releasing such pods, or of a restart, depends on
// Go's map order.
func Mixed(pods ...placement.PodAllocation) bool {
	group := map[topology.NUMAID]topology.NUMASet{}
	for i := range pods {
		for _, c := range pods[i].Containers {
			for _, b := range c.Memory {
				for node := range b.NUMA.All() {
					if g, ok := group[node]; ok && g != b.NUMA {
						return true
					}
					group[node] = b.NUMA
				}
			}
		}
	}
	return false
}
