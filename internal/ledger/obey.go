package ledger

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
)

// If Berth decides, a decision is binding, and the account is simpler (docs/protocol.md, "Nodes
// that obey"). There is one state. It has the promised resources of all pods that are bound or
// about to be bound, and the additional resources that reports show. The order has no effect, and
// the ledger predicts no kubelet. A pod keeps its resources until both the API and a report show
// that it has left.

// withShown adds to a pod's allocation the CPUs, devices and memory that a report shows for the
// pod, if they differ. So no other pod gets them.
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

// hasMemory reports whether held has at least the found memory on each NUMA node.
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

// hasDevices reports whether a container has all of the devices.
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

// hold adds a pod about which the node has just decided to the computed state.
func (n *Node) hold(p *pod) {
	if !n.valid {
		return
	}
	n.full.own()
	p.holdIn(n.full.all[0].state)
	base := n.full.clone()
	n.base = &base
	n.stale()
}
