package placement

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Keep reserves CPUs near devices for the pods that ask for these devices. It has a number of CPUs
// per device for some resources. Every healthy device, in use or free, keeps this number of CPUs on
// each of its NUMA nodes. The pods that ask for none of these devices may together use only the
// remaining allocatable CPUs of each NUMA node. The engine refuses such a pod if it needs more
// (KeptForDevices). Pods on a kubelet's shared CPUs do not count. Keep is a rule of the scheduler,
// and a pod cannot request it. A nil Keep keeps no CPUs.
type Keep struct {
	key  string
	cpus map[string]int64 // thousandths of a CPU per device, by resource
}

// MaxCPUsPerDevice is the maximum number of CPUs per device in a Keep.
const MaxCPUsPerDevice = topology.MaxCPUs

// NewKeep returns a Keep with the number of CPUs per device of each resource. Devices of other
// resources keep no CPUs.
func NewKeep(cpusPerDevice map[string]int) (*Keep, error) {
	if len(cpusPerDevice) == 0 {
		return nil, errors.New("no resource is named: want one, such as nvidia.com/gpu: 8")
	}
	k := &Keep{cpus: map[string]int64{}}
	for _, resource := range slices.Sorted(maps.Keys(cpusPerDevice)) {
		n := cpusPerDevice[resource]
		if n < 1 || n > MaxCPUsPerDevice {
			return nil, fmt.Errorf("%.100q: %d: want 1 to %d CPUs for a device", resource, n, MaxCPUsPerDevice)
		}
		k.cpus[resource] = 1000 * int64(n)
		k.key += fmt.Sprintf("%s=%d ", resource, n)
	}
	return k, nil
}

// Key returns a string that is equal for equivalent Keeps, and "" for nil.
func (k *Keep) Key() string {
	if k == nil {
		return ""
	}
	return k.key
}

// from reports whether the Keep limits the pod: it does if the pod asks for none of the Keep's
// devices.
func (k *Keep) from(r *Request) bool {
	if k == nil {
		return false
	}
	for i := range r.Containers {
		for j := range r.Containers[i].Devices {
			if d := &r.Containers[i].Devices[j]; d.Count > 0 && k.cpus[d.Resource] > 0 {
				return false
			}
		}
	}
	return true
}

// Settled returns the request without its Keep, because a Keep does not limit a pod that already
// has its resources.
func (r *Request) Settled() *Request {
	if r.Rules.Keep == nil {
		return r
	}
	settled := *r
	settled.Rules.Keep = nil
	return &settled
}

// keptFrom reports whether the Keep may limit the request: a Keep does not limit pods that the
// state already has.
func (s *State) keptFrom(r *Request) bool {
	return len(s.pools) > 0 && r.Rules.Keep.from(r) && s.pod(r.UID) == nil
}

// keep checks a verdict v that admits the pod. If the decision uses kept CPUs, keep looks for
// another place, and refuses the pod if there is none.
func (in *room) keep(s *State, r *Request, d *Decision, v Verdict) Verdict {
	node := s.overdrawn(r.Rules.Keep, d)
	if node == nil {
		return v
	}
	kept := Verdict{Reason: KeptForDevices.Reason(), Detail: KeptForDevices, NUMA: topology.NewNUMASet(node.id), Scarcity: Resolvable}
	if taken, open := s.takenAndOpen(r.Rules.Keep, d); taken > open {
		kept.Scarcity = Unresolvable
	}
	if other, found := in.decider.elsewhere(s, r, d); found {
		return other
	}
	return kept
}

// takenAndOpen returns two sums over all NUMA nodes: the CPU time that the decision takes, and the
// CPU time that no device keeps.
func (s *State) takenAndOpen(k *Keep, d *Decision) (taken, open int64) {
	for i := range s.m.nodeCPUs {
		n := &s.m.nodeCPUs[i]
		taken, open = taken+d.milliOn(n), open+max(0, s.openBeside(k, n))
	}
	return taken, open
}

// overdrawn returns a NUMA node on which the decision takes kept CPUs, or nil if there is none.
func (s *State) overdrawn(k *Keep, d *Decision) *nodeCPUs {
	for i := range s.m.nodeCPUs {
		n := &s.m.nodeCPUs[i]
		if taken := d.milliOn(n); taken > 0 && taken > s.leftBeside(k, n) {
			return n
		}
	}
	return nil
}

// leftBeside returns the CPU time of a NUMA node, in thousandths of a CPU, that is left for pods
// without devices of the Keep. It is negative if these pods use kept CPUs.
func (s *State) leftBeside(k *Keep, n *nodeCPUs) int64 {
	left := s.openBeside(k, n)
	for i := range s.pods {
		if p := s.pods[i].pod; !k.has(p) {
			left -= p.milliOn(n)
		}
	}
	return left
}

// openBeside returns the CPU time of a NUMA node, in thousandths of a CPU, that no device keeps.
func (s *State) openBeside(k *Keep, n *nodeCPUs) int64 {
	open := n.cpus.AndNot(&s.m.cpus.reserved)
	return 1000*int64(open.Len()) - s.keptOn(k, n)
}

// keptOn returns the CPU time, in thousandths of a CPU, that the devices of a NUMA node keep.
func (s *State) keptOn(k *Keep, n *nodeCPUs) (kept int64) {
	for i := range s.pools {
		p := &s.pools[i]
		if each := k.cpus[p.resource]; each > 0 && p.registered {
			all, _ := p.pool.HealthyTouching(p.inUse, s.m.compact(topology.NewNUMASet(n.id)))
			kept += each * int64(all)
		}
	}
	return kept
}

// has reports whether the pod has devices of the Keep.
func (k *Keep) has(p *PodAllocation) bool {
	for i := range p.Containers {
		for j := range p.Containers[i].Devices {
			if k.cpus[p.Containers[i].Devices[j].Resource] > 0 {
				return true
			}
		}
	}
	return false
}

// usage is a pod's CPU time on a NUMA node: its exclusive CPUs, and its CPU shares in thousandths
// of a CPU.
type usage struct {
	on     *nodeCPUs
	cpus   topology.CPUSet
	shares Peak[int64]
}

// add adds the CPU time of the next container.
func (u *usage) add(kind ContainerKind, cpus *topology.CPUSet, shares []CPUShare) {
	u.cpus = u.cpus.Or(cpus) // init containers may use CPUs of later containers
	milli := int64(0)
	for i := range shares {
		if shares[i].NUMA == u.on.id {
			milli += shares[i].MilliCPU
		}
	}
	u.shares.Add(kind, milli)
}

func (u *usage) milli() int64 { return 1000*int64(u.cpus.AndLen(&u.on.cpus)) + u.shares.Most() }

// milliOn returns the CPU time that the decision takes on the NUMA node, in thousandths of a CPU.
func (d *Decision) milliOn(n *nodeCPUs) int64 {
	u := usage{on: n, cpus: wholeOf(d.Whole)}
	for i := range d.Containers {
		u.add(d.Containers[i].Kind, &d.Containers[i].CPUs, d.Containers[i].Shares)
	}
	return u.milli()
}

// milliOn returns the CPU time that the pod has on the NUMA node, in thousandths of a CPU.
func (p *PodAllocation) milliOn(n *nodeCPUs) int64 {
	u := usage{on: n, cpus: wholeOf(p.Whole)}
	for i := range p.Containers {
		u.add(p.Containers[i].Kind, &p.Containers[i].CPUs, p.Containers[i].Shares)
	}
	return u.milli()
}

func wholeOf(w *Whole) (cpus topology.CPUSet) {
	if w != nil {
		cpus = w.CPUs
	}
	return cpus
}

// elsewhere finds nothing, because a kubelet chooses one place and offers no alternative.
func (*admission) elsewhere(*State, *Request, *Decision) (v Verdict, found bool) { return v, false }

// elsewhere decides again, but only on sets of NUMA nodes with enough CPUs that are not kept.
func (ad *jointAdmission) elsewhere(s *State, r *Request, d *Decision) (v Verdict, found bool) {
	ad.avoid.begin(s, r.Rules.Keep)
	v = ad.decide(s, r, d)
	ad.avoid.on = false
	return v, v.OK() && s.overdrawn(r.Rules.Keep, d) == nil
}

// avoidance excludes the sets of NUMA nodes on which the pod would need kept CPUs.
type avoidance struct {
	on bool
	// left has the result of leftBeside for each element of Model.nodeCPUs.
	left []int64
	// open contains the sets with enough CPUs. always contains every set. Both are nil before the
	// first use.
	open, always hint.Set
}

func (a *avoidance) begin(s *State, k *Keep) {
	a.on, a.left = true, a.left[:0]
	for i := range s.m.nodeCPUs {
		a.left = append(a.left, s.leftBeside(k, &s.m.nodeCPUs[i]))
	}
}

// avoidKept makes the search for container c, or for the whole pod, skip the sets that avoidance
// excludes. The maximum number of NUMA nodes for the pod does not change. For an init container,
// avoidKept does nothing, because the container may use CPUs of other containers; overdrawn checks
// the whole decision at the end.
func (ad *jointAdmission) avoidKept(c int) {
	if c != wholePod && ad.r.Containers[c].Kind == Init {
		return
	}
	w, a := &ad.want, &ad.avoid
	if w.Within == nil {
		if a.open == nil {
			a.open, a.always = ad.m.space.NewSet(), ad.m.space.NewSet()
		}
		for i := range a.open {
			a.open[i], a.always[i] = ^uint64(0), ^uint64(0)
		}
		w.Within, w.WithinEmpty = a.open, a.always
	}
	need := 1000 * int64(w.CPUs)
	for _, amount := range w.Amounts {
		if amount.Kind == joint.CPU {
			need += int64(amount.N)
		}
	}
	var left [hint.MaxNodes]int64 // by position
	for i := range ad.m.nodeCPUs {
		n := &ad.m.nodeCPUs[i]
		left[bits.TrailingZeros16(uint16(ad.m.compact(topology.NewNUMASet(n.id))))] += max(0, a.left[i]-ad.d.milliOn(n))
	}
	for _, mask := range ad.m.space.BySize() {
		if w.Within.Has(mask) && sumOf(&left, mask) < need {
			w.Within[mask/64] &^= 1 << (mask % 64)
		}
	}
}

func sumOf(of *[hint.MaxNodes]int64, mask hint.Mask) (sum int64) {
	for ; mask != 0; mask &= mask - 1 {
		sum += of[bits.TrailingZeros16(uint16(mask))]
	}
	return sum
}

// explainKept explains, for the verdict's NUMA node, how many CPUs the devices keep and how many
// are left.
func (s *State) explainKept(r *Request, out Refusal, v *Verdict) Refusal {
	i := slices.IndexFunc(s.m.nodeCPUs, func(n nodeCPUs) bool { return v.NUMA.Has(n.id) })
	n := &s.m.nodeCPUs[i]
	var said []string
	for _, resource := range slices.Sorted(maps.Keys(r.Rules.Keep.cpus)) {
		one := Keep{cpus: map[string]int64{resource: r.Rules.Keep.cpus[resource]}}
		if kept := s.keptOn(&one, n); kept > 0 {
			said = append(said, fmt.Sprintf("%d kept for %d %s", kept/1000, kept/one.cpus[resource], resource))
		}
	}
	left, noun := max(0, s.leftBeside(r.Rules.Keep, n))/1000, "CPUs"
	if left == 1 {
		noun = "CPU"
	}
	out.Rule = fmt.Sprintf("NUMA %d has %d %s left for pods that ask for none of its devices (%d needed): %s", n.id, left, noun, ownCPUs(s.m, r), strings.Join(said, ", "))
	return out
}
