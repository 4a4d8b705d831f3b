package claims

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/topology"
)

// User is a container that uses a claim.
type User struct {
	Container string
	// NUMA has the NUMA nodes of the container (see Lying), or 0 if the node does not pin the
	// container.
	NUMA topology.NUMASet
	// Request is the request of the claim whose devices the container uses, or "" for all devices.
	Request string
}

// uses reports whether the container uses the devices of a request. For a subrequest, the name is
// REQUEST/SUBREQUEST.
func (u *User) uses(request string) bool {
	main, _, _ := strings.Cut(request, "/")
	return u.Request == "" || u.Request == main
}

// Claim is a pod's ResourceClaim with its allocated devices.
type Claim struct {
	// Name is the name of the claim, as NAMESPACE/NAME.
	Name string
	// Results are the devices, in the form of status.allocation.devices.results of the
	// ResourceClaim.
	Results []resourceapi.DeviceRequestAllocationResult
	// Users are the containers of the pod that use the claim.
	Users []User
}

// Alignment compares the NUMA node of a device with the NUMA nodes of the containers that use it.
type Alignment uint8

// The alignments, the worst last.
const (
	// Aligned means that the device is on a NUMA node of every pinned container that uses it.
	Aligned Alignment = iota
	// Indifferent means that the device has no known NUMA node, or that no container uses the
	// claim.
	Indifferent
	// Unpinned means that the device has a NUMA node, but no container that uses it is pinned.
	Unpinned
	// Unknown means that no ResourceSlice of the node lists the device, or that its driver names a
	// NUMA node that the machine does not have.
	Unknown
	// Misaligned means that a pinned container uses the device but is on other NUMA nodes.
	Misaligned
)

var alignments = [...]string{Aligned: "aligned", Indifferent: "neutral", Unpinned: "unpinned", Unknown: "unknown", Misaligned: "misaligned"}

// Alignments returns the names of all alignments, for metrics.
func Alignments() []string { return alignments[:] }

func (a Alignment) String() string { return alignments[a] }

// Finding is the judgement about one device of a claim.
type Finding struct {
	Claim, Request string
	Device         DeviceID
	Alignment      Alignment
	Place          Place
	// User is a container that uses the device. If the device is misaligned, User is on other NUMA
	// nodes. Otherwise User is the first pinned container, or the zero value if no container is
	// pinned.
	User User
}

// String names device, claim, request, NUMA nodes and container. It omits the pool, so that equal
// findings on different nodes have equal texts.
func (f Finding) String() string {
	head := fmt.Sprintf("device %s/%s of claim %s (request %s) is %s", f.Device.Driver, f.Device.Name, f.Claim, f.Request, f.Place)
	switch {
	case f.Alignment == Aligned:
		return head + ", as are the CPUs and memory of container " + f.User.Container
	case f.User.NUMA != 0 && f.Place.Standing == Located:
		node := "node"
		if f.User.NUMA.Len() > 1 {
			node = "nodes"
		}
		return fmt.Sprintf("%s, but the CPUs and memory of container %s are on NUMA %s %s", head, f.User.Container, node, f.User.NUMA)
	case f.Alignment == Unpinned:
		return head + ", and the node pins no container that uses it"
	case f.Place.Standing == Located:
		return head + ", and no container uses it"
	}
	return head
}

// Judgement has the findings about all devices of a pod's claims, in the order of the claims.
type Judgement struct{ Findings []Finding }

// Judge compares the NUMA nodes of the devices of allocated claims with the NUMA nodes of the
// containers that use these devices.
func Judge(i *Inventory, all []Claim) Judgement {
	var j Judgement
	for c := range all {
		for r := range all[c].Results {
			j.Findings = append(j.Findings, i.judge(&all[c], &all[c].Results[r]))
		}
	}
	return j
}

func (i *Inventory) judge(c *Claim, r *resourceapi.DeviceRequestAllocationResult) Finding {
	f := Finding{Claim: c.Name, Request: r.Request, Device: DeviceID{r.Driver, r.Pool, r.Device}}
	f.Place = i.Place(f.Device)
	used := false
	for _, u := range c.Users {
		if !u.uses(r.Request) {
			continue
		}
		if used = true; u.NUMA == 0 {
			continue
		}
		if f.User == (User{}) {
			f.User = u
		}
		if f.Place.Standing == Located && !u.NUMA.Has(f.Place.NUMA) {
			f.User, f.Alignment = u, Misaligned
			return f
		}
	}
	switch {
	case f.Place.Standing == Absent, f.Place.Standing == Misstated:
		f.Alignment = Unknown
	case f.Place.Standing == Neutral, !used:
		f.Alignment = Indifferent
	case f.User == (User{}):
		f.Alignment = Unpinned
	}
	return f
}

// Alignment returns the worst alignment of the findings, or Indifferent if there are none.
func (j Judgement) Alignment() Alignment {
	if len(j.Findings) == 0 {
		return Indifferent
	}
	worst := Aligned
	for i := range j.Findings {
		worst = max(worst, j.Findings[i].Alignment)
	}
	return worst
}

// Keeps reports whether the devices fulfil the mode: with Required, no device may be worse than
// Indifferent.
func (j Judgement) Keeps(m Mode) bool { return m != Required || j.Alignment() <= Indifferent }

// Serves reports whether the scheduler accepts these devices for a pod with this mode without
// looking for better ones. With Required, no device may be worse than Indifferent. With another
// mode, no device may be worse than Unpinned.
func (j Judgement) Serves(m Mode) bool {
	return j.Keeps(Required) || m != Required && j.Alignment() == Unpinned
}

// Why describes the worst finding, and the number of other findings that are equally bad. It
// returns "" if there are no findings.
func (j Judgement) Why() string {
	worst, count := (*Finding)(nil), 0
	for i := range j.Findings {
		switch f := &j.Findings[i]; {
		case worst == nil || f.Alignment > worst.Alignment:
			worst, count = f, 1
		case f.Alignment == worst.Alignment:
			count++
		}
	}
	switch {
	case worst == nil:
		return ""
	case count == 1:
		return worst.String()
	}
	return fmt.Sprintf("%s; %d other device%s the same alignment", worst, count-1, plural(count-1))
}

func plural(n int) string {
	if n == 1 {
		return " has"
	}
	return "s have"
}

// Wanted returns the NUMA nodes on which the devices of a request would be aligned: the NUMA nodes
// that all its pinned users have. pinned is false if no user is pinned. The set is empty if the
// users have no NUMA node in common. The request "" stands for all users of the claim.
func (c *Claim) Wanted(request string) (set topology.NUMASet, pinned bool) {
	set = Everywhere
	for _, u := range c.Users {
		if u.NUMA != 0 && (request == "" || u.uses(request)) {
			set, pinned = set&u.NUMA, true
		}
	}
	return set, pinned
}

// Everywhere is the set of all NUMA nodes.
const Everywhere = ^topology.NUMASet(0)

// Reach returns the NUMA nodes on which devices of the claim would be aligned. It returns
// Everywhere if the pod accepts any device for the claim, and an empty set if it accepts only
// devices without a NUMA node. If the users of a request have no NUMA node in common, why explains
// this; otherwise why is "". apart means that a device can be aligned for one request but not for
// another.
func (c *Claim) Reach(m Mode) (only topology.NUMASet, why string, apart bool) {
	var requests []string
	for _, u := range c.Users {
		if u.Request != "" && !slices.Contains(requests, u.Request) {
			requests = append(requests, u.Request)
		}
	}
	if len(c.Users) > 0 && len(requests) == 0 {
		requests = []string{""}
	}
	restricted := false
	for _, request := range requests {
		wanted, pinned := c.Wanted(request)
		switch {
		case !pinned && m != Required:
			continue // any device
		case !pinned:
			wanted = 0
		case wanted == 0:
			why = cmp.Or(why, "the containers that use claim "+c.Name+" have no NUMA node in common")
		}
		apart = apart || restricted && wanted != only
		only, restricted = only|wanted, true
	}
	if !restricted {
		return Everywhere, "", false
	}
	return only, why, apart
}
