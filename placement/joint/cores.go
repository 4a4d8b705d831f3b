package joint

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/topology"
)

// CoreTable has a machine's cores, by NUMA node and level-3 cache.
type CoreTable struct {
	threads  int // the number of threads of every core; 0 if it differs between cores
	cores    []core
	groups   []span // the cores of each level-3 cache, separately for each NUMA node
	nodes    []nodeSpan
	place    []thread // by CPU
	all      topology.CPUSet
	reserved topology.CPUSet
}

// maxThreads is the largest number of threads of a core.
const maxThreads = 8

// Node is a NUMA node.
type Node struct {
	ID    topology.NUMAID
	Cores []Core
	// Amounts are the amounts for pods, in the order of Config.Amounts. Missing amounts are 0.
	Amounts []uint64
	// Distances are the distances to the NUMA nodes, in the order of Config.Nodes; nil if unknown.
	Distances []uint64
}

// Core has the threads of a core on one NUMA node.
type Core struct {
	CPUs []topology.CPUID
	// L3 identifies the core's level-3 cache. If the caches are unknown, all cores of a NUMA node
	// have the same L3.
	L3 int
}

// core is a compiled Core. The model orders cores by NUMA node, level-3 cache and lowest CPU.
type core struct {
	cpus [maxThreads]topology.CPUID
	// full has a bit for each thread of the core, and own a bit for each thread that may be pinned.
	// Bit t stands for cpus[t].
	full, own uint8
	node      uint8
	group     uint16
}

// span is a range of positions in a slice, such as CoreTable.cores. to is not in the range.
type span struct{ from, to uint16 }

// nodeSpan has the ranges of a NUMA node in CoreTable.cores and CoreTable.groups.
type nodeSpan struct{ cores, groups span }

// thread is the position of a CPU; bit is 0 for a CPU that the machine does not have.
type thread struct {
	core uint16
	bit  uint8
}

func (t *CoreTable) addNode(n *Node) error {
	cores := slices.Clone(n.Cores)
	for i := range cores {
		if len(cores[i].CPUs) == 0 || len(cores[i].CPUs) > maxThreads {
			return fmt.Errorf("NUMA node %d: a core with %d threads: want 1 to %d", n.ID, len(cores[i].CPUs), maxThreads)
		}
		cores[i].CPUs = slices.Sorted(slices.Values(cores[i].CPUs))
	}
	lowest := map[int]topology.CPUID{}
	for _, c := range cores {
		if low, ok := lowest[c.L3]; !ok || c.CPUs[0] < low {
			lowest[c.L3] = c.CPUs[0]
		}
	}
	slices.SortFunc(cores, func(a, b Core) int {
		return cmp.Or(cmp.Compare(lowest[a.L3], lowest[b.L3]), cmp.Compare(a.CPUs[0], b.CPUs[0]))
	})
	s := nodeSpan{span{from: uint16(len(t.cores))}, span{from: uint16(len(t.groups))}}
	for i := range cores {
		if i == 0 || cores[i].L3 != cores[i-1].L3 {
			t.groups = append(t.groups, span{from: uint16(len(t.cores)), to: uint16(len(t.cores))})
		}
		if err := t.addCore(&cores[i]); err != nil {
			return err
		}
		t.groups[len(t.groups)-1].to++
	}
	s.cores.to, s.groups.to = uint16(len(t.cores)), uint16(len(t.groups))
	t.nodes = append(t.nodes, s)
	return nil
}

func (t *CoreTable) addCore(c *Core) error {
	k := core{node: uint8(len(t.nodes)), group: uint16(len(t.groups) - 1)}
	for i, id := range c.CPUs {
		if id >= topology.MaxCPUs {
			return fmt.Errorf("CPU %d: want ids below %d", id, topology.MaxCPUs)
		}
		if t.all.Has(id) {
			return fmt.Errorf("CPU %d: want each CPU on one core", id)
		}
		t.all.Add(id)
		k.cpus[i] = id
		k.full |= 1 << i
		if !t.reserved.Has(id) {
			k.own |= 1 << i
		}
		t.place[id] = thread{core: uint16(len(t.cores)), bit: 1 << i}
	}
	t.cores = append(t.cores, k)
	return nil
}

func (t *CoreTable) compileThreads() {
	t.threads = ones(t.cores[0].full)
	for i := range t.cores {
		if ones(t.cores[i].full) != t.threads {
			t.threads = 0
			return
		}
	}
}

// Threads returns the number of threads of every core, or 0 if it differs between cores.
func (t *CoreTable) Threads() int { return t.threads }

// nodeTime returns 1000 times the number of CPUs of the NUMA node that may be pinned.
func (t *CoreTable) nodeTime(v int) (n uint64) {
	for i := t.nodes[v].cores.from; i < t.nodes[v].cores.to; i++ {
		n += 1000 * uint64(ones(t.cores[i].own))
	}
	return n
}

// Free returns the CPUs that may be pinned and that no pod has.
func (t *CoreTable) Free(b *Book) topology.CPUSet { return t.cpusOf(b.free) }

// Shared returns the CPUs on which containers without exclusive CPUs run: free CPUs and reserved
// CPUs.
func (t *CoreTable) Shared(b *Book) topology.CPUSet {
	s := t.cpusOf(b.free)
	return s.Or(&t.reserved).And(&t.all)
}

// cpusOf returns the CPUs of the given threads. threads has a bit set for each core.
func (t *CoreTable) cpusOf(threads []uint8) topology.CPUSet {
	var s topology.CPUSet
	for i, w := range threads {
		for ; w != 0; w &= w - 1 {
			s.Add(t.cores[i].cpus[bits.TrailingZeros8(w)])
		}
	}
	return s
}

// setFree sets the free threads of a core, and updates the sums.
func (t *CoreTable) setFree(b *Book, i int, free uint8) {
	k := &t.cores[i]
	for _, s := range [...]*stat{&b.nodes[k.node], &b.groups[k.group]} {
		s.add(k, b.free[i], -1)
		s.add(k, free, 1)
	}
	b.free[i] = free
}

// Take records CPUs as assigned. It does not record CPUs that stay idle because of them.
func (t *CoreTable) Take(b *Book, cpus topology.CPUSet) {
	for i, w := range cpus.Words() {
		for ; w != 0; w &= w - 1 {
			at := t.place[i*64+bits.TrailingZeros64(w)]
			t.shutThreads(b, int(at.core), at.bit&t.cores[at.core].own)
		}
	}
}

// enter records the CPUs that h keeps from other pods, or frees them if take is false.
func (t *CoreTable) enter(b *Book, h *Held, take bool) {
	shut := t.shut(h)
	for i, w := range shut.Words() {
		for ; w != 0; w &= w - 1 {
			at := t.place[i*64+bits.TrailingZeros64(w)]
			k := &t.cores[at.core]
			if at.bit&k.own == 0 {
				continue
			}
			if was := b.free[at.core]; take {
				t.setFree(b, int(at.core), was&^at.bit)
			} else {
				t.setFree(b, int(at.core), was|at.bit)
			}
			b.charge(int(k.node), 1000, take)
		}
	}
}

// shutCores records as assigned the threads in got, a bit set for each core, and the threads that e
// keeps idle because of them.
func (t *CoreTable) shutCores(b *Book, got []uint8, e Exclusive) {
	for i, w := range got {
		if w == 0 {
			continue
		}
		switch k := &t.cores[i]; e {
		case ExclusiveNUMA:
			for j := t.nodes[k.node].cores.from; j < t.nodes[k.node].cores.to; j++ {
				t.shutThreads(b, int(j), b.free[j])
			}
		case ExclusiveCore:
			t.shutThreads(b, i, k.own)
		default:
			t.shutThreads(b, i, w)
		}
	}
}

func (t *CoreTable) shutThreads(b *Book, i int, threads uint8) {
	if threads != 0 {
		b.used[t.cores[i].node] += 1000 * uint64(ones(threads))
		t.setFree(b, i, b.free[i]&^threads)
	}
}

// shut returns the CPUs that h keeps from other pods: the pod's CPUs, and CPUs that stay idle for
// the pod.
func (t *CoreTable) shut(h *Held) topology.CPUSet {
	out := h.CPUs.And(&t.all)
	if h.Exclusive == Shareable {
		return out
	}
	alone := h.Alone.And(&t.all)
	for i, w := range alone.Words() {
		for ; w != 0; w &= w - 1 {
			at := t.place[i*64+bits.TrailingZeros64(w)]
			s := span{at.core, at.core + 1}
			if h.Exclusive == ExclusiveNUMA {
				s = t.nodes[t.cores[at.core].node].cores
			}
			for c := s.from; c < s.to; c++ {
				t.addThreads(&out, &t.cores[c])
			}
		}
	}
	return out
}

func (t *CoreTable) addThreads(s *topology.CPUSet, k *core) {
	for w := k.own; w != 0; w &= w - 1 {
		s.Add(k.cpus[bits.TrailingZeros8(w)])
	}
}

// keepBeside makes the free CPUs of a range of cores unavailable, except the CPUs in own and a
// number of additional CPUs (extra). The additional CPUs are on completely free cores if possible.
// If cores is set, the last of these cores stays completely free, even if this exceeds extra.
func (t *CoreTable) keepBeside(b *Book, own *topology.CPUSet, of span, extra int, cores bool) {
	free := slices.Clone(b.free)
	for _, whole := range [...]bool{true, false} {
		for i := of.from; i < of.to; i++ {
			k, keep, enough := &t.cores[i], free[i], extra <= 0
			if whole != (keep == k.full) {
				continue
			}
			for w := keep; w != 0; w &= w - 1 {
				bit := w & -w
				switch {
				case own.Has(k.cpus[bits.TrailingZeros8(bit)]):
				case enough, extra <= 0 && !cores:
					keep &^= bit
				default:
					extra--
				}
			}
			t.setFree(b, int(i), keep)
		}
	}
}
