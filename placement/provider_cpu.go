package placement

import (
	"errors"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// cpuResource is the resource name of CPUs in explanations.
const cpuResource = "cpu"

// cpuProvider is the static CPU manager (pkg/kubelet/cm/cpumanager/policy_static.go).
type cpuProvider struct{}

// pins reports whether the CPU and memory managers may allocate exclusive resources to a pod's
// containers.
func (m *Model) pins(r *Request) bool {
	return m.guaranteed(r) && !(r.PodLevel && m.set.podLevel.unmanaged)
}

// guaranteed reports whether the node's kubelet treats the pod as Guaranteed.
func (m *Model) guaranteed(r *Request) bool {
	if r.PodLevel && m.set.podLevel.managed {
		return r.Level.Guaranteed
	}
	return r.Guaranteed && !(r.EmptyLevel && m.set.podLevel.decidesEmpty)
}

func (ad *admission) pins() bool { return ad.m.pins(ad.r) }

// shares reports whether container c of a pod with spec.resources gets no exclusive resources,
// whatever its request.
func (m *Model) shares(r *Request, c int) bool {
	return r.PodLevel && m.set.podLevel.managed && !r.Containers[c].Guaranteed
}

// exclusiveCPUs returns the number of exclusive CPUs of a container (guaranteedCPUs).
func (ad *admission) exclusiveCPUs(c int) int { return ad.m.exclusiveCPUs(ad.r, c) }

func (m *Model) exclusiveCPUs(r *Request, c int) int {
	milli := r.Containers[c].MilliCPU
	if m.cpus.topology == nil || !m.pins(r) || milli%1000 != 0 || m.shares(r, c) {
		return 0
	}
	return int(milli / 1000)
}

// ExclusiveCPUs returns the number of exclusive CPUs that the app containers and sidecars of an
// admitted pod have together. If Berth decides, the number is not known, and the result is 0.
func (m *Model) ExclusiveCPUs(r *Request) (n int) {
	if m.Decides() {
		return 0
	}
	if m.whole(r) {
		return m.wholeCPUs(r)
	}
	for c := range r.Containers {
		if r.Containers[c].Kind != Init {
			n += m.exclusiveCPUs(r, c)
		}
	}
	return n
}

// hints implements GetTopologyHints and GetPodTopologyHints.
func (p cpuProvider) hints(ad *admission, c int, want hint.Want) Detail {
	if ad.m.cpus.hinter == nil || !ad.pins() {
		return NoDetail
	}
	if c == wholePod {
		p.podHints(ad, want)
		return NoDetail
	}
	n := ad.exclusiveCPUs(c)
	if n == 0 {
		return NoDetail
	}
	held := ad.heldBy(c)
	switch {
	case held == nil || held.CPUs.IsEmpty():
		ad.cpuHints(n, nil, &ad.cpus.reusable, want)
	case held.CPUs.Len() != n:
		ad.list(cpuResource).Reset(hint.Impossible)
	default:
		ad.cpuHints(n, &held.CPUs, nil, want)
	}
	return NoDetail
}

func (cpuProvider) podHints(ad *admission, want hint.Want) {
	n := ad.m.podCPUs(ad.r)
	if n == 0 {
		return
	}
	var held topology.CPUSet
	if ad.held != nil {
		for c := range ad.r.Containers {
			if h := ad.heldBy(c); h != nil && !h.CPUs.IsEmpty() {
				if h.CPUs.Len() != ad.exclusiveCPUs(c) {
					ad.list(cpuResource).Reset(hint.Impossible)
					return
				}
				held = held.Or(&h.CPUs)
			}
		}
	}
	switch {
	case ad.whole && ad.sharesNoCPUs(n):
		ad.list(cpuResource).Reset(hint.Impossible)
	case held.Len() == n:
		ad.cpuHints(n, &held, nil, want)
	default:
		held = held.Or(&ad.cpus.reusable)
		ad.cpuHints(n, nil, &held, want)
	}
}

// cpuHints adds a list for n of the available CPUs. If available is nil, it uses the free CPUs.
func (ad *admission) cpuHints(n int, available, reusable *topology.CPUSet, want hint.Want) {
	var free topology.CPUSet
	if available == nil {
		free = ad.cpus.shared.AndNot(&ad.m.cpus.reserved)
		available = &free
	}
	in := cpu.HintInput{N: n, Available: available, Reusable: reusable, Want: want}
	ad.m.cpus.hinter.Hints(&in, ad.list(cpuResource))
}

// allocate implements Allocate. Before 1.37, a kubelet with full-pcpus-only also checks containers
// that already have their CPUs, and can kill them after a restart.
func (cpuProvider) allocate(ad *admission, c int, h hint.Hint) Detail {
	if c == wholePod {
		return ad.allocateWholeCPUs(h)
	}
	n := ad.exclusiveCPUs(c)
	if n == 0 {
		return NoDetail
	}
	held := ad.heldBy(c)
	got := &ad.d.Containers[c].CPUs
	if held != nil && !held.CPUs.IsEmpty() {
		if ad.m.set.version < V137 {
			if err := ad.m.cpus.topology.CheckSMT(n, &ad.cpus.shared, &ad.m.cpus.siblings); err != nil {
				return cpuDetail(err)
			}
		}
		*got = held.CPUs
		ad.reuseCPUs(c)
		return NoDetail
	}
	in := cpu.AllocateInput{
		N: n, Shared: &ad.cpus.shared, Reserved: &ad.m.cpus.reserved, Siblings: &ad.m.cpus.siblings,
		Reusable: &ad.cpus.reusable, Aligned: !h.Any, NUMA: ad.m.expand(h.Mask),
	}
	if err := ad.m.cpus.topology.Allocate(&in, got); err != nil {
		*got = topology.CPUSet{}
		return cpuDetail(err)
	}
	if ad.m.guard {
		if d := ad.guardCPUs(got); d != NoDetail {
			return d
		}
	}
	ad.cpus.shared = ad.cpus.shared.AndNot(got)
	ad.reuseCPUs(c)
	return NoDetail
}

// guardCPUs refuses a pod that would get CPUs that are not free, or the last shared CPU.
func (ad *admission) guardCPUs(got *topology.CPUSet) Detail {
	pool := ad.cpus.shared.AndNot(&ad.m.cpus.reserved)
	pool = pool.Or(&ad.cpus.reusable)
	if !got.IsSubsetOf(&pool) {
		return DefectForeignCPUs
	}
	if ad.cpus.shared.IsSubsetOf(got) {
		return DefectNoSharedCPU
	}
	return NoDetail
}

// guardRestart refuses the pod if a restart of the kubelet would then kill a container of this or
// another pod.
func (ad *admission) guardRestart() Detail {
	if !ad.m.guardRestarts {
		return NoDetail
	}
	widest := 0
	for c := range ad.d.Containers {
		widest = max(widest, ad.d.Containers[c].CPUs.Len())
	}
	if widest == 0 {
		return NoDetail
	}
	widest = max(widest, widestOf(ad.pods))
	if whole := ad.cpus.shared.AndNot(&ad.m.cpus.siblings); whole.Len() < widest {
		return DefectRestartKills
	}
	return NoDetail
}

// widestOf returns the largest number of exclusive CPUs that a container of the pods has.
func widestOf(pods []podRef) int {
	widest := 0
	for i := range pods {
		for j := range pods[i].pod.Containers {
			widest = max(widest, pods[i].pod.Containers[j].CPUs.Len())
		}
	}
	return widest
}

// reuseCPUs implements updateCPUsToReuse: later containers may reuse the CPUs of a regular init
// container.
func (ad *admission) reuseCPUs(c int) {
	got := &ad.d.Containers[c].CPUs
	if ad.r.Containers[c].Kind == Init {
		ad.cpus.reusable = ad.cpus.reusable.Or(got)
	} else {
		ad.cpus.reusable = ad.cpus.reusable.AndNot(got)
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
