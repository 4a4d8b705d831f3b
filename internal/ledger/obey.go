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
		if at >= 0 && found.CPUs.IsSubsetOf(&held.Containers[at].CPUs) && hasDevices(&held.Containers[at], found.Devices) &&
			hasMemory(held.Containers[at].Memory, found.Memory) {
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

// hasMemory reports whether held has at least as much memory on each NUMA node as found.
func hasMemory(held, found []placement.MemoryBlock) bool {
	for _, b := range found {
		if !slices.ContainsFunc(held, func(h placement.MemoryBlock) bool {
			return h.Resource == b.Resource && h.NUMA == b.NUMA && h.Bytes >= b.Bytes
		}) {
			return false
		}
	}
	return true
}

// hasDevices reports whether a container has all devices in found.
func hasDevices(c *placement.ContainerAllocation, found []placement.DeviceAllocation) bool {
	for i := range found {
		at := slices.IndexFunc(c.Devices, func(a placement.DeviceAllocation) bool { return a.Resource == found[i].Resource })
		for _, id := range found[i].IDs {
			if at < 0 || !slices.Contains(c.Devices[at].IDs, id) {
				return false
			}
		}
	}
	return true
}

// withDevices returns the devices of both lists.
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
