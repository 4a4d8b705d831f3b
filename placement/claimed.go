package placement

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Claimed are devices that another program assigns to the pod, such as devices of ResourceClaims.
// On a node with authority berth, Berth places the containers on NUMA nodes that have enough of
// these devices. If several containers use a device, they must have its NUMA node in common. The
// scheduler sets Claimed; a pod cannot request it.
//
// Claimed has only numbers of devices per NUMA node, because the other program chooses the devices.
// So a decision may have enough devices by number although the other program finds no suitable
// ones. The scheduler then excludes the decision with Refute.
type Claimed struct {
	Requests []ClaimRequest // at most 64
	Devices  []ClaimDevices
	Matches  []ClaimMatch
	// refuted has the NUMA nodes of each decision that Refute excluded, by request.
	refuted [][]topology.NUMASet
	// settled has, by request, NUMA nodes that its containers must have in common (Settled). If it
	// is nil, the engine counts devices.
	settled []topology.NUMASet
}

// ClaimRequest is a request for a number of devices.
type ClaimRequest struct {
	Users []string // the names of the containers that use the devices
	N     int
}

// ClaimDevices is a number of devices that are near the same NUMA nodes and serve the same
// requests.
type ClaimDevices struct {
	NUMA topology.NUMASet // the devices are near these NUMA nodes; EveryNode means all
	For  uint64           // bit i: the devices can serve request i
	// Free is the number of devices that are not assigned, All the number of all devices.
	Free, All int
}

// EveryNode as ClaimDevices.NUMA means that the devices are near every NUMA node.
const EveryNode = ^topology.NUMASet(0)

// Unlimited as ClaimDevices.Free or All means that there are always enough devices.
const Unlimited = math.MaxInt32

// ClaimMatch is a set of requests whose devices must all have the same value of an attribute, such
// as the PCI root.
type ClaimMatch struct {
	For uint64 // bit i: the ClaimMatch applies to request i
	// Values has, for each value of the attribute, the positions in Claimed.Devices of the devices
	// with this value.
	Values [][]int
}

// Key returns a string that is equal for equivalent values, and "" for nil.
func (c *Claimed) Key() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%+v", *c)
}

// Refute excludes decisions that place every container on the NUMA nodes that lying has for it, or
// on a subset of them. lying has the NUMA nodes of pinned containers, by name.
func (c *Claimed) Refute(lying map[string]topology.NUMASet) {
	c.refuted = append(c.refuted, c.reach(lying))
}

// Settled returns a Claimed that keeps every container near the devices that were assigned for the
// NUMA nodes in lying.
func (c *Claimed) Settled(lying map[string]topology.NUMASet) *Claimed {
	return &Claimed{Requests: c.Requests, settled: c.reach(lying)}
}

// reach returns, by request, the NUMA nodes that the request's users have in common. The devices
// must be near one of them.
func (c *Claimed) reach(lying map[string]topology.NUMASet) []topology.NUMASet {
	out := make([]topology.NUMASet, len(c.Requests))
	for i := range c.Requests {
		out[i] = EveryNode
		for _, user := range c.Requests[i].Users {
			if set := lying[user]; set != 0 {
				out[i] &= set
			}
		}
	}
	return out
}

// LiesOn returns the NUMA nodes of the container's exclusive CPUs or, if it has none and bound is
// set, of its CPU shares. If this set is empty, LiesOn returns the NUMA nodes of the memory.
// nodesOf returns the NUMA nodes of CPUs.
func (c *ContainerDecision) LiesOn(bound bool, nodesOf func(*topology.CPUSet) topology.NUMASet) topology.NUMASet {
	set := nodesOf(&c.CPUs)
	if set == 0 && bound {
		for _, s := range c.Shares {
			set = set.With(s.NUMA)
		}
	}
	if set == 0 {
		for i := range c.Memory {
			set |= c.Memory[i].NUMA
		}
	}
	return set
}

// claimRoom is working memory for the search for sets of NUMA nodes with enough claimed devices.
type claimRoom struct {
	ad *jointAdmission

	now, always hint.Set
	// others has, by request, the NUMA nodes that the containers other than the current one allow.
	// Bit i of mine means that the current container uses request i. reach is others, with each
	// request in mine limited to the set of NUMA nodes that is tested.
	others, reach []topology.NUMASet
	mine          uint64
	// left and given are a matching of requests to Claimed.Devices: left[i] is how many of
	// Devices[i] are left, and given[r][i] how many of them request r gets. seen marks the elements
	// that the current search has visited.
	left  []int
	given [][]int
	seen  []bool
}

// keepNear limits container c to the sets of NUMA nodes on which every container of the pod can
// have its claimed devices nearby. A container that is not placed yet counts as possible on every
// NUMA node.
func (room *claimRoom) keepNear(c int) {
	ad, claimed := room.ad, room.ad.r.Rules.Claimed
	if claimed == nil || !ad.liesSomewhere() {
		return
	}
	room.others, room.mine = room.others[:0], 0
	for i := range claimed.Requests {
		others, mine := room.reachBeside(&claimed.Requests[i], c)
		if room.others = append(room.others, others); mine {
			room.mine |= 1 << i
		}
	}
	if room.mine == 0 {
		return
	}
	space := ad.m.obey.joint.Space()
	if room.now == nil {
		room.now, room.always = space.NewSet(), space.NewSet()
	}
	ad.budget.Charge(space.Words())
	clear(room.now)
	clear(room.always)
	for _, mask := range space.BySize() {
		for _, of := range [...]struct {
			set   hint.Set
			empty bool
		}{{room.now, false}, {room.always, true}} {
			if includesOne(of.set, mask) || room.serves(mask, of.empty) {
				of.set.Add(mask)
			}
		}
	}
	ad.want.CPUsWithin, ad.want.CPUsWithinEmpty = room.now, room.always
}

// liesSomewhere reports whether ContainerDecision.LiesOn will return NUMA nodes for the current
// container.
func (ad *jointAdmission) liesSomewhere() bool {
	return ad.want.CPUs > 0 || slices.ContainsFunc(ad.want.Amounts, func(a joint.Amount) bool {
		return a.Kind != joint.CPU || ad.width() != joint.AnyWidth
	})
}

// reachBeside returns the NUMA nodes near which a request's devices may be, according to all
// containers other than c. mine reports whether c uses the devices.
func (room *claimRoom) reachBeside(r *ClaimRequest, c int) (reach topology.NUMASet, mine bool) {
	ad := room.ad
	reach = EveryNode
	for u := range ad.d.Containers {
		got := &ad.d.Containers[u]
		switch {
		case !slices.Contains(r.Users, ad.r.Containers[u].Name):
		case c == wholePod || c == u:
			mine = true
		default:
			if set := got.LiesOn(ad.width() != joint.AnyWidth, ad.m.nodesOf); set != 0 {
				reach &= set
			}
		}
	}
	return reach, mine
}

// includesOne reports whether the set contains the given mask without one of its NUMA nodes. It
// does not look for the empty mask.
func includesOne(set hint.Set, mask hint.Mask) bool {
	for w := mask; w != 0; w &= w - 1 {
		if less := mask &^ (w & -w); less != 0 && set.Has(less) {
			return true
		}
	}
	return false
}

// serves reports whether there are devices for all requests if the current container is on the
// mask. If empty is set, all devices count as free. If the budget has no steps left, serves returns
// true without a check. The program that assigns the devices may then still refuse the pod.
func (room *claimRoom) serves(mask hint.Mask, empty bool) bool {
	ad, claimed := room.ad, room.ad.r.Rules.Claimed
	if ad.budget.Left() == 0 {
		ad.budget.CutOff()
		return true
	}
	ad.budget.Charge(claimed.cost())
	nodes := ad.m.expand(mask)
	room.reach = append(room.reach[:0], room.others...)
	for w := room.mine; w != 0; w &= w - 1 {
		room.reach[bits.TrailingZeros64(w)] &= nodes
	}
	return claimed.serves(room, empty)
}

func (c *Claimed) serves(room *claimRoom, empty bool) bool {
	if c.settled != nil {
		return empty || within(c.settled, room.reach)
	}
	for _, refuted := range c.refuted {
		if !empty && within(room.reach, refuted) {
			return false
		}
	}
	if len(c.Matches) == 0 {
		return c.matching(room, empty, func(int, int) bool { return true })
	}
	for i := range c.Matches { // checks each match separately; all together may be harder to fulfil
		m := &c.Matches[i]
		if !slices.ContainsFunc(m.Values, func(value []int) bool {
			return c.matching(room, empty, func(request, device int) bool {
				return m.For>>request&1 == 0 || slices.Contains(value, device)
			})
		}) {
			return false
		}
	}
	return true
}

// cost returns the number of steps of a call of serves.
func (c *Claimed) cost() int {
	wanted, tries := 0, 1
	for i := range c.Requests {
		wanted += c.Requests[i].N
	}
	for i := range c.Matches {
		tries += len(c.Matches[i].Values)
	}
	return 1 + tries*wanted*len(c.Devices)/32
}

// within reports whether sets[i] is a subset of others[i], for every i.
func within(sets, others []topology.NUMASet) bool {
	for i := range sets {
		if sets[i]&^others[i] != 0 {
			return false
		}
	}
	return true
}

// matching reports whether every request gets its number of devices, each device at most once.
func (c *Claimed) matching(room *claimRoom, empty bool, may func(request, device int) bool) bool {
	room.left, room.given = room.left[:0], room.given[:0]
	for i := range c.Devices {
		if empty {
			room.left = append(room.left, c.Devices[i].All)
		} else {
			room.left = append(room.left, c.Devices[i].Free)
		}
	}
	for range c.Requests {
		room.given = append(room.given, make([]int, len(c.Devices)))
	}
	var give func(request int) bool
	give = func(request int) bool {
		for i := range c.Devices {
			d := &c.Devices[i]
			near := d.NUMA == EveryNode || d.NUMA&room.reach[request] != 0
			if !near || d.For>>request&1 == 0 || room.seen[i] || !may(request, i) {
				continue
			}
			room.seen[i] = true
			if room.left[i] > 0 {
				room.left[i]--
				room.given[request][i]++
				return true
			}
			for other := range room.given { // let another request give up the device and take a different one
				if other != request && room.given[other][i] > 0 && give(other) {
					room.given[other][i]--
					room.given[request][i]++
					return true
				}
			}
		}
		return false
	}
	for request := range c.Requests {
		for range c.Requests[request].N {
			if room.seen = append(room.seen[:0], make([]bool, len(c.Devices))...); !give(request) {
				return false
			}
		}
	}
	return true
}
