package koordinator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// fitsWithin reports whether the rest of a Reservation has room for an owner, by trying every set
// of NUMA nodes. If CPUs are held or requested exclusively, it returns true only for an owner with
// the template's request and an unused Reservation.
func (t twin) fitsWithin(place *placement.Decision, rest *placement.PodAllocation, template, pod *corev1.Pod) bool {
	held, err := wire.ReadPod(template)
	if err != nil {
		return false
	}
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil {
		return false
	}
	if heldAlone(place) || wantsAlone(&ask.Request) {
		return held.Request.Rules == ask.Request.Rules && sameNeeds(&held.Request, &ask.Request) && cpusOf(place) == cpusLeft(rest)
	}
	rooms, empty := t.left(rest), t.rooms(nil)
	shares := cpusOf(place) == topology.CPUSet{}
	r := &ask.Request
	var needs []need
	for i := range r.Containers {
		n := needOf(r, &r.Containers[i])
		if shares && n.own > 0 || !shares && n.shares > 0 {
			return false // held CPUs are for exclusive CPUs, and held CPU time for shared CPUs
		}
		needs = append(needs, n)
	}
	if r.Rules.Scope == placement.PodScope && r.Rules.Policy != placement.PolicyNone {
		needs = []need{most(needs)}
	}
	for _, n := range needs {
		if w := leastNodes(rooms, n); w == 0 || w > t.widest(empty, n, r.Rules.Policy) {
			return false
		}
	}
	return true
}

// heldAlone reports whether a place, the resources that a Reservation holds, keeps CPUs idle. If a
// template only prefers that and does not request the idle CPUs, its place keeps none.
func heldAlone(place *placement.Decision) bool {
	return slices.ContainsFunc(place.Containers, func(c placement.ContainerDecision) bool { return c.Exclusive != joint.Shareable })
}

// wantsAlone reports whether a pod requests idle CPUs next to its own.
func wantsAlone(r *placement.Request) bool { return r.Rules.CPUs.Exclusive != joint.Shareable }

// sameNeeds reports whether two pods with only app containers have equal requests.
func sameNeeds(a, b *placement.Request) bool {
	if len(a.Containers) != len(b.Containers) {
		return false
	}
	for i := range a.Containers {
		if a.Containers[i].Kind != placement.App || b.Containers[i].Kind != placement.App || needOf(a, &a.Containers[i]) != needOf(b, &b.Containers[i]) {
			return false
		}
	}
	return true
}

func cpusOf(d *placement.Decision) (cpus topology.CPUSet) {
	for i := range d.Containers {
		cpus = cpus.Or(&d.Containers[i].CPUs)
	}
	return cpus
}

func cpusLeft(p *placement.PodAllocation) (cpus topology.CPUSet) {
	for i := range p.Containers {
		cpus = cpus.Or(&p.Containers[i].CPUs)
	}
	return cpus
}

// left is each NUMA node's part of the rest of a place.
func (t twin) left(rest *placement.PodAllocation) []room {
	out := make([]room, len(t.m.NUMANodes))
	cpus := cpusLeft(rest)
	for i := range out {
		n := &t.m.NUMANodes[i]
		own := uint64(n.CPUs.AndLen(&cpus))
		out[i] = room{own: own, milli: 1000 * own}
		for k := range rest.Containers {
			c := &rest.Containers[k]
			for _, s := range c.Shares {
				if s.NUMA == n.ID {
					out[i].milli += uint64(s.MilliCPU)
				}
			}
			for _, b := range c.Memory {
				if b.NUMA.Has(n.ID) { // one
					out[i].memory += b.Bytes
				}
			}
		}
	}
	return out
}

// fitsBeyond reports whether an owner could get the rest of a place plus free resources of the
// node, all on one NUMA node. It returns false for pods that do not need one NUMA node, have
// several containers, or request exclusive cores.
func (t twin) fitsBeyond(place *placement.Decision, rest *placement.PodAllocation, free []room, pod *corev1.Pod) bool {
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil {
		return false
	}
	r := &ask.Request
	if heldAlone(place) || wantsAlone(r) || len(r.Containers) != 1 || r.Rules.Policy != placement.PolicySingleNUMANode {
		return false
	}
	n, left := needOf(r, &r.Containers[0]), t.left(rest)
	var all room
	for _, has := range left {
		all = room{all.own + has.own, all.milli + has.milli, all.memory + has.memory}
	}
	if shares := all.own == 0; all.milli == 0 || all.memory == 0 || shares && n.own > 0 || !shares && n.shares > 0 {
		return false // the owner would use no resources of the place
	}
	milli := 1000*n.own + n.shares
	for i, has := range left {
		if has.milli > 0 && has.memory > 0 && has.own+free[i].own >= n.own && has.milli+min(free[i].milli, beyond(milli, all.milli)) >= milli &&
			has.memory+min(free[i].memory, beyond(n.memory, all.memory)) >= n.memory {
			return true
		}
	}
	return false
}

// beyond returns the missing part of a need.
func beyond(need, all uint64) uint64 { return need - min(need, all) }
