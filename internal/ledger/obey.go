package ledger

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
)

// If Berth decides, a decision is binding (docs/protocol.md, "Nodes that obey"), and the node has
// only one state. The state has the promised resources of all pods that are bound or about to be
// bound, and the additional resources that reports show. The order of Bindings has no effect. A pod
// keeps its resources until both the API and a report show that it is gone.

// withShown adds to a pod's allocation the further CPUs, devices and memory that a report shows for
// the pod, so that no other pod gets them.
func withShown(held, shown *placement.PodAllocation) *placement.PodAllocation {
	out := held
	for i := range shown.Containers {
		found := &shown.Containers[i]
		at := slices.IndexFunc(held.Containers, func(c placement.ContainerAllocation) bool { return c.Name == found.Name })
		if at >= 0 && shownAsHeld(&held.Containers[at], found) {
			continue
		}
		if out == held {
			out = &placement.PodAllocation{UID: held.UID, Whole: held.Whole, Containers: slices.Clone(held.Containers)}
		}
		if at < 0 {
			out.Containers = append(out.Containers, *found)
		} else {
			out.Containers[at].CPUs = out.Containers[at].CPUs.Or(&found.CPUs)
			out.Containers[at].Devices = withDevices(out.Containers[at].Devices, found.Devices)
			out.Containers[at].Memory = placement.MostMemory(out.Containers[at].Memory, found.Memory)
		}
	}
	return out
}

// shownAsHeld reports whether found, a container in a report, has no CPUs, devices or memory beyond
// those in held. It saves the copy that withShown otherwise makes.
func shownAsHeld(held, found *placement.ContainerAllocation) bool {
	return found.CPUs.IsSubsetOf(&held.CPUs) &&
		(len(found.Devices) == 0 || slices.EqualFunc(held.Devices, found.Devices, sameDevices)) &&
		(len(found.Memory) == 0 || slices.Equal(held.Memory, found.Memory))
}

func withDevices(held, found []placement.DeviceAllocation) []placement.DeviceAllocation {
	out := slices.Clone(held)
	for i := range found {
		at := slices.IndexFunc(out, func(a placement.DeviceAllocation) bool { return a.Resource == found[i].Resource })
		if at < 0 {
			out = append(out, placement.DeviceAllocation{Resource: found[i].Resource})
			at = len(out) - 1
		}
		out[at].IDs = slices.Concat(out[at].IDs, found[i].IDs)
		slices.Sort(out[at].IDs)
		out[at].IDs = slices.Compact(out[at].IDs)
	}
	slices.SortFunc(out, func(a, b placement.DeviceAllocation) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// hold adds a pod with a new decision to the computed state.
func (o *outlook) hold(p *pod) {
	if !o.valid {
		return
	}
	o.full.own()
	p.holdIn(o.full.all[0].state)
	base := o.full.clone()
	o.base = &base
	o.stale()
}
