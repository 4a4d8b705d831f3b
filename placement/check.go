package placement

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Check returns a *StateError if the state violates an invariant. A device must belong to at most
// one pod. If the kubelet decides, every CPU of its static CPU manager must be shared or belong to
// exactly one pod. Every byte of its static memory manager must be free or reserved, and every
// reserved byte must be in a block of a pod. If Berth decides, its record of assigned resources
// must agree with the pods.
func (s *State) Check() error {
	if err := s.books().check(); err != nil {
		return err
	}
	return s.checkDevices()
}

func (b kubeletBooks) check() error {
	if err := b.checkCPUs(); err != nil {
		return err
	}
	return b.checkMemory()
}

func (b kubeletBooks) checkCPUs() error {
	s := b.s
	if s.m.cpus.topology == nil {
		return nil
	}
	all := s.m.cpus.initial
	taken := s.shared
	if extra := taken.AndNot(&all); !extra.IsEmpty() {
		return contradiction("sharedCPUs", s.shared.String(), "no CPUs "+extra.String()+": only CPUs "+all.String()+" can be shared")
	}
	for i := range s.pods {
		pod := s.pods[i].pod
		own, err := checkPodCPUs(pod, &taken)
		if err != nil {
			return err
		}
		taken = taken.Or(&own)
	}
	if taken != all {
		missing, extra := all.AndNot(&taken), taken.AndNot(&all)
		return contradiction("sharedCPUs", s.shared.String(), wantCPUs(missing, extra))
	}
	return nil
}

// wantCPUs describes how to correct the CPUs of a state. missing are CPUs that are neither shared
// nor in a container. extra are CPUs in a container although the kubelet never assigns them.
func wantCPUs(missing, extra topology.CPUSet) string {
	var want []string
	if !missing.IsEmpty() {
		want = append(want, fmt.Sprintf("CPUs %q to be shared, or held by a container", missing))
	}
	if !extra.IsEmpty() {
		want = append(want, fmt.Sprintf("no container with CPUs %q, which the kubelet never assigns", extra))
	}
	return strings.Join(want, "; ")
}

// checkPodCPUs returns all CPUs of a pod. It returns an error if the pod has a CPU in taken, or if
// two containers have the same CPU and neither is a regular init container.
func checkPodCPUs(pod *PodAllocation, taken *topology.CPUSet) (own topology.CPUSet, err error) {
	if pod.Whole != nil && !pod.Whole.CPUs.IsEmpty() {
		return pod.Whole.CPUs, checkWholeCPUs(pod, taken)
	}
	var running topology.CPUSet
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if both := c.CPUs.And(taken); !both.IsEmpty() {
			return own, contradiction(containerField(pod, c, "cpus"), c.CPUs.String(), "no CPUs "+both.String()+": they are shared or belong to another pod")
		}
		if c.Kind != Init {
			if both := c.CPUs.And(&running); !both.IsEmpty() {
				return own, contradiction(containerField(pod, c, "cpus"), c.CPUs.String(), "no CPUs "+both.String()+": another container of the pod has them")
			}
			running = running.Or(&c.CPUs)
		}
		own = own.Or(&c.CPUs)
	}
	return own, nil
}

// checkWholeCPUs is checkPodCPUs for a pod whose containers use parts of the pod's CPUs.
func checkWholeCPUs(pod *PodAllocation, taken *topology.CPUSet) error {
	all := &pod.Whole.CPUs
	if both := all.And(taken); !both.IsEmpty() {
		return contradiction("pods["+pod.UID+"].cpus", all.String(), "no CPUs "+both.String()+": they are shared or belong to another pod")
	}
	for i := range pod.Containers {
		if c := &pod.Containers[i]; !c.CPUs.IsSubsetOf(all) {
			return contradiction(containerField(pod, c, "cpus"), c.CPUs.String(), "only CPUs of the pod, which has "+all.String())
		}
	}
	return nil
}

func (b kubeletBooks) checkMemory() error {
	s, m := b.s, b.s.m
	if m.mem == nil {
		return nil
	}
	if err := m.mem.Check(s.book); err != nil {
		return contradiction("memory", err.Error(), "amounts that add up")
	}
	sums := tally{held: make([]uint64, len(m.mem.Names())), assignments: make([]int, m.space.Len())}
	for i := range s.pods {
		if err := sums.addPod(m, s.pods[i].pod); err != nil {
			return err
		}
	}
	for k, name := range m.mem.Names() {
		var reserved uint64
		for pos := range m.space.Len() {
			reserved += m.mem.Reserved(s.book, memory.Kind(k), pos)
		}
		if reserved != sums.held[k] {
			return contradiction("memory", fmt.Sprintf("%d bytes of %s reserved", reserved, name), wantReserved(reserved, sums.held[k]))
		}
	}
	for pos, want := range sums.assignments {
		if got, _ := s.book.Group(pos); got != want {
			return contradiction(fmt.Sprintf("memory[%d]", m.space.ID(pos)), fmt.Sprintf("assignments %d", got), fmt.Sprintf("%d, the number of memory blocks with this NUMA node", want))
		}
	}
	return nil
}

func wantReserved(reserved, held uint64) string {
	if reserved > held {
		return fmt.Sprintf("%d (%d less), the total of all containers", held, reserved-held)
	}
	return fmt.Sprintf("%d (%d more), the total of all containers", held, held-reserved)
}

// tally sums up blocks: bytes by kind, and the number of blocks by NUMA node.
type tally struct {
	held        []uint64
	assignments []int
}

func (t *tally) addPod(m *Model, pod *PodAllocation) error {
	if pod.Whole != nil && pod.Whole.Memory != nil {
		return t.add(m, "pods["+pod.UID+"].memory", pod.Whole.Memory)
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if err := t.add(m, containerField(pod, c, "memory"), c.Memory); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) add(m *Model, field string, blocks []MemoryBlock) error {
	for i := range blocks {
		b := &blocks[i]
		k, ok := m.mem.Kind(b.Resource)
		if !ok || b.NUMA == 0 || b.NUMA&^m.nodes != 0 {
			return contradiction(field, fmt.Sprintf("%d bytes of %s on NUMA nodes {%s}", b.Bytes, b.Resource, b.NUMA),
				"a kind of memory and nodes that the machine has")
		}
		t.held[k] += b.Bytes
		for pos := range m.compact(b.NUMA).All() {
			t.assignments[pos]++
		}
	}
	return nil
}
