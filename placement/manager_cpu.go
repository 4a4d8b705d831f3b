package placement

import (
	"errors"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

const cpuResource = "cpu"

// cpuManager is the static CPU manager (pkg/kubelet/cm/cpumanager/policy_static.go), with its data
// during an admission.
type cpuManager struct {
	ad *admission
	// shared is the admission's copy of State.shared. reusable has the CPUs of init containers that
	// later containers may reuse.
	shared, reusable topology.CPUSet
}

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
func (cm *cpuManager) hints(c int, want hint.Want) Detail {
	ad := cm.ad
	if ad.m.cpus.hinter == nil || !ad.pins() {
		return NoDetail
	}
	if c == wholePod {
		cm.podHints(want)
		return NoDetail
	}
	n := ad.exclusiveCPUs(c)
	if n == 0 {
		return NoDetail
	}
	held := ad.heldBy(c)
	switch {
	case held == nil || held.CPUs.IsEmpty():
		cm.addHints(n, nil, &cm.reusable, want)
	case held.CPUs.Len() != n:
		ad.list(cpuResource).Reset(hint.Impossible)
	default:
		cm.addHints(n, &held.CPUs, nil, want)
	}
	return NoDetail
}

func (cm *cpuManager) podHints(want hint.Want) {
	ad := cm.ad
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
	case ad.whole && cm.sharesNone(n):
		ad.list(cpuResource).Reset(hint.Impossible)
	case held.Len() == n:
		cm.addHints(n, &held, nil, want)
	default:
		held = held.Or(&cm.reusable)
		cm.addHints(n, nil, &held, want)
	}
}

// addHints adds a list for n of the available CPUs. If available is nil, it uses the free CPUs.
func (cm *cpuManager) addHints(n int, available, reusable *topology.CPUSet, want hint.Want) {
	ad := cm.ad
	var free topology.CPUSet
	if available == nil {
		free = cm.shared.AndNot(&ad.m.cpus.reserved)
		available = &free
	}
	in := cpu.HintInput{N: n, Available: available, Reusable: reusable, Want: want}
	ad.m.cpus.hinter.Hints(&in, ad.list(cpuResource))
}

// allocate implements Allocate. Before 1.37, a kubelet with full-pcpus-only also checks containers
// that already have their CPUs, and can kill them after a restart.
func (cm *cpuManager) allocate(c int, h hint.Hint) Detail {
	ad := cm.ad
	if c == wholePod {
		return cm.allocateWhole(h)
	}
	n := ad.exclusiveCPUs(c)
	if n == 0 {
		return NoDetail
	}
	held := ad.heldBy(c)
	got := &ad.d.Containers[c].CPUs
	if held != nil && !held.CPUs.IsEmpty() {
		if ad.m.set.version < V137 {
			if err := ad.m.cpus.topology.CheckSMT(n, &cm.shared, &ad.m.cpus.siblings); err != nil {
				return cpuDetail(err)
			}
		}
		*got = held.CPUs
		cm.reuse(c)
		return NoDetail
	}
	in := cpu.AllocateInput{
		N: n, Shared: &cm.shared, Reserved: &ad.m.cpus.reserved, Siblings: &ad.m.cpus.siblings,
		Reusable: &cm.reusable, Aligned: !h.Any, NUMA: ad.m.expand(h.Mask),
	}
	if err := ad.m.cpus.topology.Allocate(&in, got); err != nil {
		*got = topology.CPUSet{}
		return cpuDetail(err)
	}
	if ad.m.guard {
		if d := cm.guard(got); d != NoDetail {
			return d
		}
	}
	cm.shared = cm.shared.AndNot(got)
	cm.reuse(c)
	return NoDetail
}

// guard refuses a pod that would get CPUs that are not free, or the last shared CPU.
func (cm *cpuManager) guard(got *topology.CPUSet) Detail {
	pool := cm.shared.AndNot(&cm.ad.m.cpus.reserved)
	pool = pool.Or(&cm.reusable)
	if !got.IsSubsetOf(&pool) {
		return DefectForeignCPUs
	}
	if cm.shared.IsSubsetOf(got) {
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

// reuse implements updateCPUsToReuse: later containers may reuse the CPUs of a regular init
// container.
func (cm *cpuManager) reuse(c int) {
	got := &cm.ad.d.Containers[c].CPUs
	if cm.ad.r.Containers[c].Kind == Init {
		cm.reusable = cm.reusable.Or(got)
	} else {
		cm.reusable = cm.reusable.AndNot(got)
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
