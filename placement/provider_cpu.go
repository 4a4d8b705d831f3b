package placement

import (
	"errors"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// cpuResource is the name of CPUs in reports.
const cpuResource = "cpu"

// cpuProvider is the static CPU manager (pkg/kubelet/cm/cpumanager/policy_static.go).
type cpuProvider struct{}

// pins says whether the CPU and memory managers give a pod's containers anything of their own.
func (m *Model) pins(r *Request) bool { return r.Guaranteed && !(r.PodLevel && m.set.podLevel) }

func (t *trial) pins() bool { return t.m.pins(t.r) }

// exclusiveCPUs is the number of CPUs that a container gets to itself: guaranteedCPUs.
func (t *trial) exclusiveCPUs(c int) int {
	milli := t.r.Containers[c].MilliCPU
	if t.m.cpus.topology == nil || !t.pins() || milli%1000 != 0 {
		return 0
	}
	return int(milli / 1000)
}

// hints is GetTopologyHints and GetPodTopologyHints.
func (p cpuProvider) hints(t *trial, c int, want hint.Want) Detail {
	if t.m.cpus.hinter == nil || !t.pins() {
		return NoDetail
	}
	if c == wholePod {
		p.podHints(t, want)
		return NoDetail
	}
	n := t.exclusiveCPUs(c)
	if n == 0 {
		return NoDetail
	}
	held := t.heldBy(c)
	switch {
	case held == nil || held.CPUs.IsEmpty():
		t.cpuHints(n, nil, &t.cpus.reusable, want)
	case held.CPUs.Len() != n:
		t.list(cpuResource).Reset(hint.Impossible)
	default:
		t.cpuHints(n, &held.CPUs, nil, want)
	}
	return NoDetail
}

func (cpuProvider) podHints(t *trial, want hint.Want) {
	var sum podSum[int]
	var held topology.CPUSet
	for c := range t.r.Containers {
		n := t.exclusiveCPUs(c)
		sum.add(t.r.Containers[c].Kind, n)
		if h := t.heldBy(c); h != nil && !h.CPUs.IsEmpty() {
			if h.CPUs.Len() != n {
				t.impossibleUnlessNone()
				return
			}
			held = held.Or(&h.CPUs)
		}
	}
	n := sum.peak()
	switch {
	case n == 0:
	case held.Len() == n:
		t.cpuHints(n, &held, nil, want)
	default:
		held = held.Or(&t.cpus.reusable)
		t.cpuHints(n, nil, &held, want)
	}
}

// impossibleUnlessNone adds an empty list if the pod wants exclusive CPUs at all.
func (t *trial) impossibleUnlessNone() {
	for c := range t.r.Containers {
		if t.exclusiveCPUs(c) > 0 {
			t.list(cpuResource).Reset(hint.Impossible)
			return
		}
	}
}

// cpuHints adds a list for n of the available CPUs, nil meaning those that are free.
func (t *trial) cpuHints(n int, available, reusable *topology.CPUSet, want hint.Want) {
	var free topology.CPUSet
	if available == nil {
		free = t.cpus.shared.AndNot(&t.m.cpus.reserved)
		available = &free
	}
	in := cpu.HintInput{N: n, Available: available, Reusable: reusable, Want: want}
	t.m.cpus.hinter.Hints(&in, t.list(cpuResource))
}

// allocate is Allocate. Before 1.37 a container that has its CPUs already is still held to full-pcpus-only, so that a
// restart of the kubelet can kill it.
func (cpuProvider) allocate(t *trial, c int, h hint.Hint) Detail {
	n := t.exclusiveCPUs(c)
	if n == 0 {
		return NoDetail
	}
	held := t.heldBy(c)
	got := &t.d.Containers[c].CPUs
	if held != nil && !held.CPUs.IsEmpty() {
		if t.m.set.version < V137 {
			if err := t.m.cpus.topology.CheckSMT(n, &t.cpus.shared, &t.m.cpus.siblings); err != nil {
				return cpuDetail(err)
			}
		}
		*got = held.CPUs
		t.reuseCPUs(c)
		return NoDetail
	}
	in := cpu.AllocateInput{
		N: n, Shared: &t.cpus.shared, Reserved: &t.m.cpus.reserved, Siblings: &t.m.cpus.siblings,
		Reusable: &t.cpus.reusable, Aligned: !h.Any, NUMA: t.m.expand(h.Mask),
	}
	if err := t.m.cpus.topology.Allocate(&in, got); err != nil {
		*got = topology.CPUSet{}
		return cpuDetail(err)
	}
	if t.m.guard {
		if d := t.guardCPUs(got); d != NoDetail {
			return d
		}
	}
	t.cpus.shared = t.cpus.shared.AndNot(got)
	t.reuseCPUs(c)
	return NoDetail
}

// guardCPUs refuses CPUs that were not free, and the last shared ones.
func (t *trial) guardCPUs(got *topology.CPUSet) Detail {
	pool := t.cpus.shared.AndNot(&t.m.cpus.reserved)
	pool = pool.Or(&t.cpus.reusable)
	if !got.IsSubsetOf(&pool) {
		return DefectForeignCPUs
	}
	if t.cpus.shared.IsSubsetOf(got) {
		return DefectNoSharedCPU
	}
	return NoDetail
}

// guardRestart refuses the pod if, with it, a restart of the kubelet would kill a container of this or another pod.
func (t *trial) guardRestart() Detail {
	if !t.m.guardRestarts {
		return NoDetail
	}
	widest := 0
	for c := range t.d.Containers {
		widest = max(widest, t.d.Containers[c].CPUs.Len())
	}
	if widest == 0 {
		return NoDetail
	}
	widest = max(widest, widestOf(t.pods))
	if whole := t.cpus.shared.AndNot(&t.m.cpus.siblings); whole.Len() < widest {
		return DefectRestartKills
	}
	return NoDetail
}

// widestOf is the most exclusive CPUs that a container has.
func widestOf(pods []podRef) int {
	widest := 0
	for i := range pods {
		for j := range pods[i].pod.Containers {
			widest = max(widest, pods[i].pod.Containers[j].CPUs.Len())
		}
	}
	return widest
}

// reuseCPUs is updateCPUsToReuse: what a regular init container has, later containers may have too.
func (t *trial) reuseCPUs(c int) {
	got := &t.d.Containers[c].CPUs
	if t.r.Containers[c].Kind == Init {
		t.cpus.reusable = t.cpus.reusable.Or(got)
	} else {
		t.cpus.reusable = t.cpus.reusable.AndNot(got)
	}
}

func cpuDetail(err error) Detail {
	switch {
	case errors.Is(err, cpu.ErrNotEnough):
		return TooFewCPUs
	case errors.Is(err, cpu.ErrSMTSize):
		return NotWholeCores
	case errors.Is(err, cpu.ErrSMTCores):
		return TooFewWholeCores
	case errors.Is(err, cpu.ErrAccounting):
		return CPUAccounting
	case errors.Is(err, cpu.ErrWouldHang):
		return DefectHang
	case errors.Is(err, cpu.ErrTooComplex):
		return DefectTooComplex
	}
	return CPUsNotFound
}
