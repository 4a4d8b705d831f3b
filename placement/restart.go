package placement

import (
	"errors"
	"fmt"

	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// RestartError explains why a kubelet would not start with its checkpoints.
type RestartError struct {
	// Manager is "cpu" or "memory".
	Manager string
	Problem string
	// Crash is true if the kubelet would crash without a message.
	Crash bool
}

func (e *RestartError) Error() string { return e.Manager + " manager: " + e.Problem }

// Restart validates the state as a starting kubelet's managers validate their checkpoints
// (validateState). If the kubelet starts, it admits its pods again in their order: Decide, then
// Commit, or Release if it refuses. The error is a *RestartError.
func (s *State) Restart() error {
	m := s.m
	if s.reuse != nil {
		s.reuse = &reuseMemo{}
	}
	if err := (kubeletBooks{s}).restartCPUs(); err != nil {
		return err
	}
	if m.mem == nil {
		return nil
	}
	expected := m.mem.NewBook()
	for _, p := range s.byOrder() {
		for b := range p.Blocks() {
			if k, ok := m.mem.Kind(b.Resource); ok {
				m.mem.Take(expected, m.compact(b.NUMA), memory.Need{Kind: k, Bytes: b.Bytes})
			}
		}
	}
	err := m.mem.Restart(s.book, expected)
	switch {
	case errors.Is(err, memory.ErrCrash):
		return &RestartError{Manager: "memory", Problem: err.Error(), Crash: true}
	case err != nil:
		return &RestartError{Manager: "memory", Problem: "the expected machine state is different from the real one: " + err.Error()}
	}
	return nil
}

// Mixed reports whether the memory of some NUMA node is in blocks of different groups, which the
// kubelet's best-effort policy can cause. It looks at a pod's blocks, or with uid "" at all blocks.
// The result of releasing such a pod, or of a restart, depends on Go's map order.
func (s *State) Mixed(uid string) bool {
	group := map[topology.NUMAID]topology.NUMASet{}
	for i := range s.pods {
		if uid != "" && s.pods[i].uid != uid {
			continue
		}
		for _, c := range s.pods[i].pod.Containers {
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

// restartCPUs implements validateState of cpumanager.
func (s kubeletBooks) restartCPUs() error {
	m := s.m
	if m.cpus.topology == nil {
		return nil
	}
	held, clash := s.heldCPUs()
	if s.shared.IsEmpty() {
		if !held.IsEmpty() {
			return &RestartError{Manager: "cpu", Problem: "default cpuset cannot be empty"}
		}
		s.shared = m.cpus.initial
		return nil
	}
	fail := func(format string, a ...any) error {
		return &RestartError{Manager: "cpu", Problem: fmt.Sprintf(format, a...)}
	}
	reserved, all := m.cpus.reserved, m.cpus.initial
	shared := reserved.And(&s.shared)
	switch known := s.shared.Or(&held); {
	case m.set.cpu.StrictReservation && !shared.IsEmpty():
		return fail("some of strictly reserved cpus: %q are present in defaultCpuSet: %q", shared, s.shared)
	case !m.set.cpu.StrictReservation && shared != reserved:
		return fail("not all reserved cpus: %q are present in defaultCpuSet: %q", reserved, s.shared)
	case clash != "":
		return fail("%s overlaps with default cpuset %q", clash, s.shared)
	case known != all:
		return fail("current set of available CPUs %q doesn't match with CPUs in state %q", all, known)
	}
	return nil
}

// heldCPUs returns all exclusive CPUs. clash describes a container that holds shared CPUs, if there
// is one.
func (s kubeletBooks) heldCPUs() (held topology.CPUSet, clash string) {
	for i := range s.pods {
		p := s.pods[i].pod
		if p.Whole != nil {
			held = held.Or(&p.Whole.CPUs)
		}
		for j := range p.Containers {
			c := &p.Containers[j]
			held = held.Or(&c.CPUs)
			if clash == "" && c.CPUs.Intersects(&s.shared) {
				clash = fmt.Sprintf("pod: %s, container: %s cpuset: %q", p.UID, c.Name, c.CPUs)
			}
		}
	}
	return held, clash
}
