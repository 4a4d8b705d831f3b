package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Keep says how many CPUs each device keeps for pods that ask for devices. Pods that ask for none
// have, on each NUMA node, what is left together: the CPUs that pods can have, less those of all
// healthy devices there, in use or free. Else they are refused (KeptForDevices). It is a rule of
// the scheduler; no pod asks for it. A nil Keep keeps nothing.
type Keep struct {
	key  string
	cpus map[string]int64 // thousandths for one device, by resource
}

// MaxCPUsPerDevice is the most CPUs that a Keep has for one device.
const MaxCPUsPerDevice = topology.MaxCPUs

// NewKeep returns a Keep with so many CPUs for each device of a resource; devices of others keep
// none.
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

// Key is equal for Keeps that mean the same, and "" for none.
func (k *Keep) Key() string {
	if k == nil {
		return ""
	}
	return k.key
}

// from says whether the Keep keeps CPUs from the pod: it asks for none of the devices.
func (k *Keep) from(r *Request) bool {
	if k == nil {
		return false
	}
	for i := range r.Containers {
		for j := range r.Containers[i].Devices {
			if k.cpus[r.Containers[i].Devices[j].Resource] > 0 {
				return false
			}
		}
	}
	return true
}

// Settled is the request of a pod that has its place: nothing is kept from it any more.
func (r *Request) Settled() *Request {
	if r.Rules.Keep == nil {
		return r
	}
	settled := *r
	settled.Rules.Keep = nil
	return &settled
}

// keptFrom says whether CPUs may be kept from a pod that was not there before.
func (s *State) keptFrom(r *Request) bool {
	return len(s.pools) > 0 && r.Rules.Keep.from(r) && s.pod(r.UID) == nil
}

// keep refuses what the decider admits, if CPUs are kept from the pod there, and the decider knows
// no other place for it.
func (in *room) keep(s *State, r *Request, d *Decision, v Verdict) Verdict {
	node := s.overdrawn(r.Rules.Keep, d)
	if node == nil {
		return v
	}
	if v, found := in.decider.elsewhere(s, r, d); found {
		return v
	}
	return Verdict{Reason: KeptForDevices.Reason(), Detail: KeptForDevices, NUMA: topology.NewNUMASet(node.id), Scarcity: Resolvable}
}

// overdrawn returns a NUMA node on which the decision takes CPUs that are kept; nil for none.
func (s *State) overdrawn(k *Keep, d *Decision) *nodeCPUs {
	for i := range s.m.nodeCPUs {
		n := &s.m.nodeCPUs[i]
		if taken := d.milliOn(n); taken > 0 && taken > s.leftBeside(k, n) {
			return n
		}
	}
	return nil
}

// leftBeside is how many thousandths of a NUMA node's CPUs are left for pods without devices;
// negative where they have some that are kept.
func (s *State) leftBeside(k *Keep, n *nodeCPUs) int64 {
	open := n.cpus.AndNot(&s.m.cpus.reserved)
	left := 1000*int64(open.Len()) - s.keptOn(k, n)
	for i := range s.pods {
		if p := s.pods[i].pod; !k.has(p) {
			left -= p.milliOn(n)
		}
	}
	return left
}

// keptOn is how many thousandths of a NUMA node's CPUs the devices there keep.
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

// has says whether the pod has some of the devices.
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

// usage is what a pod has of a NUMA node's CPUs. Init containers have them in turn with the others.
type usage struct {
	on     *nodeCPUs
	cpus   topology.CPUSet
	shares int64
}

func (u *usage) add(kind ContainerKind, cpus *topology.CPUSet, shares []CPUShare) {
	u.cpus = u.cpus.Or(cpus)
	for i := range shares {
		if shares[i].NUMA == u.on.id && kind != Init {
			u.shares += shares[i].MilliCPU
		}
	}
}

func (u *usage) milli() int64 { return 1000*int64(u.cpus.AndLen(&u.on.cpus)) + u.shares }

// milliOn is how many thousandths of the NUMA node's CPUs the decision takes.
func (d *Decision) milliOn(n *nodeCPUs) int64 {
	u := usage{on: n}
	for i := range d.Containers {
		c := &d.Containers[i]
		u.add(c.Kind, &c.CPUs, c.Shares)
	}
	return u.milli()
}

// milliOn is how many thousandths of the NUMA node's CPUs the pod has.
func (p *PodAllocation) milliOn(n *nodeCPUs) int64 {
	u := usage{on: n}
	for i := range p.Containers {
		c := &p.Containers[i]
		u.add(c.Kind, &c.CPUs, c.Shares)
	}
	return u.milli()
}

// elsewhere finds nothing: a kubelet takes no other place than its own.
func (*admission) elsewhere(*State, *Request, *Decision) (v Verdict, found bool) { return v, false }

// elsewhere decides once more, among the sets of NUMA nodes with enough CPUs that are not kept.
func (ad *jointAdmission) elsewhere(s *State, r *Request, d *Decision) (v Verdict, found bool) {
	ad.avoid.on = true
	v = ad.decide(s, r, d)
	ad.avoid.on = false
	return v, v.OK() && s.overdrawn(r.Rules.Keep, d) == nil
}

// avoidance leaves out the sets of NUMA nodes where CPUs are kept from the pod.
type avoidance struct {
	on bool
	// open are the ones that are left, always all of them; nil before they are needed.
	open, always hint.Set
}

// avoidKept has the search leave them out. How wide a pod may be spread does not depend on that.
func (ad *jointAdmission) avoidKept() {
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
	for _, mask := range ad.m.space.BySize() {
		if w.Within.Has(mask) && ad.leftWithin(mask) < 1000*int64(ad.r.CPUs()) {
			w.Within[mask/64] &^= 1 << (mask % 64)
		}
	}
}

// leftWithin is leftBeside of a set of NUMA nodes.
func (ad *jointAdmission) leftWithin(mask hint.Mask) (left int64) {
	nodes := ad.m.expand(mask)
	for i := range ad.m.nodeCPUs {
		if n := &ad.m.nodeCPUs[i]; nodes.Has(n.id) {
			left += max(0, ad.s.leftBeside(ad.r.Rules.Keep, n))
		}
	}
	return left
}

// explainKept says on which NUMA node too few CPUs are left beside those that devices keep.
func (s *State) explainKept(r *Request, out Refusal, on topology.NUMASet) Refusal {
	for i := range s.m.nodeCPUs {
		n := &s.m.nodeCPUs[i]
		if !on.Has(n.id) {
			continue
		}
		var said []string
		for _, resource := range slices.Sorted(maps.Keys(r.Rules.Keep.cpus)) {
			one := Keep{cpus: map[string]int64{resource: r.Rules.Keep.cpus[resource]}}
			if kept := s.keptOn(&one, n); kept > 0 {
				said = append(said, fmt.Sprintf("%d for %d %s", kept/1000, kept/one.cpus[resource], resource))
			}
		}
		left := max(0, s.leftBeside(r.Rules.Keep, n)) / 1000
		out.Rule = fmt.Sprintf("NUMA %d has %d CPUs left for pods without devices, of %d asked: %s are kept", n.id, left, ownCPUs(s.m, r), strings.Join(said, ", "))
	}
	return out
}

// everywhere is the mask of all NUMA nodes.
const everywhere = ^hint.Mask(0)
