package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Keep says how many CPUs stay free for each free device beside them. A pod that asks for devices
// may have them. One that asks for none is refused where it would leave fewer (KeptForDevices).
// It is a rule of the scheduler; no pod asks for it. A nil Keep keeps nothing.
type Keep struct {
	key string
	// cpus is for one device of each resource; without any, every resource counts, and a device
	// keeps its part of the CPUs.
	cpus map[string]int
}

// MaxCPUsPerDevice is the most CPUs that a Keep has for one device.
const MaxCPUsPerDevice = topology.MaxCPUs

// NewKeep returns a Keep with so many CPUs for each device of a resource; devices of others keep
// none. Where nothing is named, devices of all resources keep their part: the CPUs of their NUMA
// nodes that pods can have, divided by the healthy devices there, rounded down in all.
func NewKeep(cpusPerDevice map[string]int) (*Keep, error) {
	k := &Keep{cpus: maps.Clone(cpusPerDevice)}
	for _, resource := range slices.Sorted(maps.Keys(k.cpus)) {
		n := k.cpus[resource]
		if n < 1 || n > MaxCPUsPerDevice {
			return nil, fmt.Errorf("%.100q: %d: want 1 to %d CPUs for a device", resource, n, MaxCPUsPerDevice)
		}
		k.key += fmt.Sprintf("%s=%d ", resource, n)
	}
	return k, nil
}

// Key is equal for Keeps that mean the same, and "" for none.
func (k *Keep) Key() string {
	if k == nil {
		return ""
	}
	return "cpusNearDevices " + k.key
}

// each returns how many CPUs a device of the resource keeps, 0 for its part; false if none.
func (k *Keep) each(resource string) (cpus int, counts bool) {
	if k == nil || len(k.cpus) == 0 {
		return 0, true
	}
	cpus, counts = k.cpus[resource]
	return cpus, counts
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
	return r.Rules.Keep != nil && !r.AsksDevices() && len(s.pools) > 0 && s.pod(r.UID) == nil
}

// keep refuses what the decider admits, if CPUs are kept from the pod there, and the decider knows
// no other place for it.
func (in *room) keep(s *State, r *Request, d *Decision, v Verdict) Verdict {
	if s.strands(r, s.m.Reach(r, &v), r.Rules.Keep) == 0 {
		return v
	}
	if v, found := in.decider.elsewhere(s, r, d); found {
		return v
	}
	return Verdict{Reason: KeptForDevices.Reason(), Detail: KeptForDevices, NUMA: v.NUMA, Scarcity: Resolvable}
}

// elsewhere finds nothing: a kubelet takes no other place than its own.
func (*admission) elsewhere(*State, *Request, *Decision) (v Verdict, found bool) { return v, false }

// elsewhere decides once more, among the sets of NUMA nodes where nothing is kept from the pod.
func (ad *jointAdmission) elsewhere(s *State, r *Request, d *Decision) (v Verdict, found bool) {
	ad.avoid.on = true
	v = ad.decide(s, r, d)
	ad.avoid.on = false
	return v, v.OK() && s.strands(r, s.m.Reach(r, &v), r.Rules.Keep) == 0
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
		if w.Within.Has(mask) && ad.s.strands(ad.r, ad.m.expand(mask), ad.r.Rules.Keep) > 0 {
			w.Within[mask/64] &^= 1 << (mask % 64)
		}
	}
}

// explainKept says which NUMA nodes keep CPUs from the pod, and for how many devices.
func (s *State) explainKept(r *Request, out Refusal, on topology.NUMASet) Refusal {
	var said []string
	for i := range s.pools {
		p := &s.pools[i]
		each, counts := r.Rules.Keep.each(p.resource)
		_, free := p.pool.HealthyTouching(p.inUse, s.m.compact(on))
		if !counts || !p.registered || free == 0 {
			continue
		}
		part := "their part"
		if each > 0 {
			part = fmt.Sprintf("%d each", each)
		}
		said = append(said, fmt.Sprintf(", %d free %s keep %s", free, p.resource, part))
	}
	_, free := cpusOn(s, on)
	out.Rule = fmt.Sprintf("NUMA %s has %d free CPUs%s, and the pod asks for %d", on, free, strings.Join(said, ""), ownCPUs(s.m, r))
	return out
}

// everywhere is the mask of all NUMA nodes.
const everywhere = ^hint.Mask(0)
