package ledger

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
)

// Where Berth decides, a decision binds, and the account is simpler (docs/protocol.md, "Nodes that
// obey"). There is one state: what every pod that is bound, or about to be, was promised, and what
// reports show beside it. No order matters, and nothing is predicted. A pod keeps what it has until
// it has left: gone from the API, and from a report.

// decides says whether Berth decides on the node. There is a report.
func (n *Node) decides() bool { return n.report != nil && n.report.Model.Decides() }

func cloneDevices(list []placement.DeviceAllocation) []placement.DeviceAllocation {
	out := slices.Clone(list)
	for i := range out {
		out[i].IDs = slices.Clone(out[i].IDs)
	}
	return out
}

// computeHeld brings the one state up to date.
func (n *Node) computeHeld() {
	s := n.report.bare.Clone()
	for _, uid := range n.report.order {
		p, shown := n.pods[uid], n.report.pods[uid].alloc
		if p == nil || p.held == nil {
			s.Hold(&shown)
			continue
		}
		both := withShown(p.held, &shown)
		p.displaced = s.Hold(both)
	}
	for _, list := range [][]*pod{n.posted, n.afloat(), n.reserved} {
		for _, p := range list {
			n.holdIn(s, p)
		}
	}
	n.holdRests(s)
	n.first = worlds{model: n.report.Model, all: []world{{state: s}}, shared: true}
	n.base, n.full = n.first.clone(), n.first.clone()
	n.setNewest(beforeAll, 0)
	n.valid = true
}

func (n *Node) holdIn(s *placement.State, p *pod) {
	if p.held != nil {
		p.displaced = s.Hold(p.held)
	}
}

// withShown returns what a pod holds with the CPUs and the devices with which it was found, where
// these are others: nobody else is to have them.
func withShown(held, shown *placement.PodAllocation) *placement.PodAllocation {
	out := held
	for i := range shown.Containers {
		found := &shown.Containers[i]
		at := slices.IndexFunc(held.Containers, func(c placement.ContainerAllocation) bool { return c.Name == found.Name })
		if at >= 0 && found.CPUs.IsSubsetOf(&held.Containers[at].CPUs) && hasDevices(&held.Containers[at], found.Devices) {
			continue
		}
		if out == held {
			out = &placement.PodAllocation{UID: held.UID, Containers: slices.Clone(held.Containers)}
		}
		if at < 0 {
			out.Containers = append(out.Containers, *found)
		} else {
			out.Containers[at].CPUs = out.Containers[at].CPUs.Or(&found.CPUs)
			out.Containers[at].Devices = withDevices(out.Containers[at].Devices, found.Devices)
		}
	}
	return out
}

// hasDevices says whether a container has all of the devices.
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
	out := cloneDevices(held)
	for i := range found {
		at := slices.IndexFunc(out, func(a placement.DeviceAllocation) bool { return a.Resource == found[i].Resource })
		if at < 0 {
			out = append(out, placement.DeviceAllocation{Resource: found[i].Resource})
			at = len(out) - 1
		}
		out[at].IDs = append(out[at].IDs, found[i].IDs...)
		slices.Sort(out[at].IDs)
		out[at].IDs = slices.Compact(out[at].IDs)
	}
	slices.SortFunc(out, func(a, b placement.DeviceAllocation) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// hold takes a pod in that has just been decided for.
func (n *Node) hold(p *pod) {
	if !n.valid {
		return
	}
	n.full.own()
	n.holdIn(n.full.all[0].state, p)
	n.base = n.full.clone()
	n.stale()
}

// keepsHeld answers for a pod that has been decided for: it has what it was given, unless that
// turned out to be somebody else's. d receives the decision.
func (n *Node) keepsHeld(p *pod, d *placement.Decision) Answer {
	n.compute()
	if p.held == nil || p.displaced != "" {
		return waiting(Undecided)
	}
	return n.full.decideAll(p.req, d)
}

// Obeyed says whether a report shows each container that it lists where it was promised to be, with
// the devices that it was promised where the report lists any. One that does not run is not listed.
func Obeyed(d *placement.Decision, shown *placement.PodAllocation) bool {
	return !slices.ContainsFunc(shown.Containers, func(c placement.ContainerAllocation) bool {
		promised := decisionOf(d, c.Name)
		return promised.CPUs != c.CPUs || slices.ContainsFunc(c.Devices, func(a placement.DeviceAllocation) bool {
			at := slices.IndexFunc(promised.Devices, func(b placement.DeviceAllocation) bool { return b.Resource == a.Resource })
			return at >= 0 && !slices.Equal(promised.Devices[at].IDs, a.IDs)
		})
	})
}
