package query

import (
	"cmp"
	"context"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/topology"
)

// together finds devices on one node for all claims of a pod together.
type together struct {
	claimant *claimant
	at       *claimPlace
	on       *claims.OnNode
	// The field `has` lists the claims with devices, and open lists the claims without devices.
	// Both are in the order of spec.resourceClaims, because the scheduler passes them to its
	// allocator in this order.
	has, open []*claimHere
	// steered means that no claim requests all devices. Only then may devices on other NUMA nodes
	// be hidden from the allocator.
	steered bool
}

// claimHere is a claim of the pod on one node.
type claimHere struct {
	claims.Claim // Users and Results belong to the placement that was tried last (claimant.ways)
	name         string
	// users returns the containers that use the claim, with their NUMA nodes for a given placement
	// of the pod.
	users  func(claims.Lying) []claims.User
	object *resourcev1.ResourceClaim
	out    *ClaimOnNode
	// The following fields are set only for an open claim. `near` has the NUMA nodes on which its
	// devices would be near, for any of the tried placements of the pod. `apart` explains why its
	// containers have no NUMA node in common, or is "". `whys` has the reasons why the claim gets
	// no near devices.
	devices *devicesFor
	near    topology.NUMASet
	apart   string
	whys    []string
}

// onNode explains which devices the claims have on a node, or could have together. `asked` selects
// the claims. The answer about a claim is nil if the pod has no node yet and the claim's devices
// are not on this node. It is also nil if the claim has no devices yet and the argument `whole` is
// false.
func (x *claimant) onNode(ctx context.Context, at *claimPlace, asked []bool, whole bool) []*ClaimOnNode {
	t := &together{claimant: x, at: at, on: x.on(at)}
	t.steered = !t.on.Whole
	out := make([]*ClaimOnNode, len(asked))
	for i := range x.found {
		if !asked[i] {
			continue
		}
		h := x.here(t.on, i)
		if h == nil {
			out[i] = &ClaimOnNode{Node: at.Name, Near: true, Message: byPlugin}
			continue
		}
		c := h.object
		if c.Status.Allocation == nil && !whole {
			continue
		}
		h.out = &ClaimOnNode{Node: at.Name}
		out[i] = h.out
		if c.Status.Allocation == nil {
			h.devices = &devicesFor{allocator: x.allocator, claim: c, node: at.NodeState, slices: at.slices, inventory: t.on.Inventory}
			t.open = append(t.open, h)
			continue
		}
		h.Results = c.Status.Allocation.Devices.Results
		t.has = append(t.has, h)
		j := claims.Judge(t.on.Inventory, []claims.Claim{h.Claim})
		if !x.bound && !slices.ContainsFunc(j.Findings, func(f claims.Finding) bool { return f.Place.Standing != claims.Absent }) {
			out[i] = nil
		}
	}
	t.explain(ctx)
	for _, h := range slices.Concat(t.has, t.open) {
		h.out.lacks = h.out.lacks || x.mode == claims.Required && !h.out.Near
	}
	return out
}

// here describes the pod's i-th claim on a node. If i is the length of spec.resourceClaims, this is
// the claim for extended resources; here returns nil if the pod needs no such claim on the node.
func (x *claimant) here(on *claims.OnNode, i int) *claimHere {
	pod, c := x.question.pod, x.found[i]
	if i < len(pod.Spec.ResourceClaims) {
		ref := pod.Spec.ResourceClaims[i].Name
		users := func(lying claims.Lying) []claims.User { return claims.Users(pod, ref, lying) }
		return &claimHere{Claim: claims.Claim{Name: c.Namespace + "/" + c.Name}, name: ref, users: users, object: c}
	}
	if c == nil {
		c = on.Extended
	}
	if c == nil {
		return nil
	}
	users := func(lying claims.Lying) []claims.User { return claims.UsersOfExtended(pod, lying) }
	return &claimHere{Claim: claims.Claim{Name: claims.ForExtended}, name: claims.ForExtended, users: users, object: c}
}

// byPlugin is the message for a node where extended resources need no claim.
const byPlugin = "the pod needs no claim for them there"

// explain tries the possible placements of the pod (claimant.ways) until all claims have near
// devices.
func (t *together) explain(ctx context.Context) {
	wrong := t.wrong(ctx)
	found, tried := false, 0
	for way := range t.claimant.ways(ctx, t.at) {
		fits := t.judge(way, tried == 0)
		tried++
		if len(t.open) == 0 {
			found = fits
		} else if t.at.known && !wrong {
			found = t.lie(ctx, fits)
		}
		if found || fits && !t.steered && t.claimant.mode == claims.Required {
			break // the allocator sees all devices, so only the first placement is tried
		}
	}
	if wrong {
		return
	}
	for _, h := range t.open {
		if !t.at.known {
			h.out.Message, h.out.NUMANodes = t.at.why, h.devices.rows(0, false, "")
			continue
		}
		h.out.NUMANodes = h.devices.rows(h.near, true, h.apart)
		if !found {
			h.out.Message = strings.Join(h.whys, "; ")
		}
	}
	if !found && t.at.known && len(t.open) > 0 {
		t.elsewhere(ctx)
	}
}

// wrong reports whether the matching devices of an open claim cannot be determined. No open claim
// then gets devices.
func (t *together) wrong(ctx context.Context) (wrong bool) {
	first := ""
	for _, h := range t.open {
		if err := h.devices.sort(ctx); err != nil {
			h.out.Message, wrong, first = err.Error(), true, cmp.Or(first, h.name)
		}
	}
	for _, h := range t.open {
		if h.out.lacks = wrong; wrong && h.out.Message == "" {
			h.out.Message, h.out.NUMANodes = gotNone(first), h.devices.rows(0, false, "")
		}
	}
	return wrong
}

// judge assumes one possible placement of the pod. It reports whether the devices of the allocated
// claims are where the pod requires them.
func (t *together) judge(way claims.Lying, first bool) (fits bool) {
	fits = true
	for _, h := range t.open {
		h.Users = h.users(way)
	}
	for _, h := range t.has {
		h.Users = h.users(way)
		j := claims.Judge(t.on.Inventory, []claims.Claim{h.Claim})
		near := t.at.why == "" && j.Keeps(claims.Required)
		if first || near {
			h.out.Near = near
			h.out.Message = strings.TrimPrefix(t.at.why+"; "+strings.Join(findings(&j, t.at.why != ""), "; "), "; ")
		}
		if !j.Serves(t.claimant.mode) {
			fits = false
			for _, o := range t.open {
				o.say(j.Why())
			}
		}
	}
	return fits
}

// lie allocates devices to all open claims, for the placement that judge has just assumed. As the
// scheduler does, it offers the allocator the devices that are near for at least one of these
// claims. So it checks afterwards that each claim got devices that are near for the claim itself.
func (t *together) lie(ctx context.Context, fits bool) bool {
	only, restricted := topology.NUMASet(0), false
	for _, h := range t.open {
		wanted, apart, _ := h.Reach(t.claimant.mode)
		if h.near, h.apart = h.near|wanted, apart; wanted != claims.Everywhere {
			only, restricted = only|wanted, true
		}
	}
	if t.claimant.mode == claims.Free || !t.steered || !restricted {
		only = claims.Everywhere
	}
	if !fits {
		return false
	}
	if why := t.allocate(ctx, only, t.open); why != "" {
		t.alone(ctx, why)
		return false
	}
	bad := ""
	for _, h := range t.open {
		if j := claims.Judge(t.on.Inventory, []claims.Claim{h.Claim}); !j.Serves(t.claimant.mode) {
			h.say(j.Why())
			bad = cmp.Or(bad, h.name)
		}
	}
	for _, h := range t.open {
		got := "would get " + deviceNames(h.Results)
		if h.out.Near = bad == ""; h.out.Near {
			h.out.Message = got + t.claimant.unpinned(&h.Claim)
		} else if j := claims.Judge(t.on.Inventory, []claims.Claim{h.Claim}); j.Serves(t.claimant.mode) {
			h.say(got + ", but the devices of claim " + bad + " would not all be near the CPUs")
		}
	}
	return bad == ""
}

// allocate allocates devices on the given NUMA nodes to all claims of the list together. If it
// cannot, it returns the reason; "" means success.
func (t *together) allocate(ctx context.Context, only topology.NUMASet, list []*claimHere) (why string) {
	var objects []*resourcev1.ResourceClaim
	for _, h := range list {
		if objects = append(objects, h.object); claims.TakesAll(h.object) {
			only = claims.Everywhere
		}
	}
	results, why := t.on.Allocate(ctx, t.on.Shown(only), objects)
	if why == "" {
		for i, h := range list {
			h.Results = results[i].Devices.Results
		}
	}
	return why
}

// alone explains for each claim why the claims cannot have devices together: the claim gets none
// even by itself, another claim gets none, or there are not enough devices for all claims.
func (t *together) alone(ctx context.Context, why string) {
	whys, none := make([]string, len(t.open)), ""
	for i, h := range t.open {
		only, _, _ := h.Reach(t.claimant.mode)
		if t.claimant.mode == claims.Free || claims.TakesAll(h.object) {
			only = claims.Everywhere
		}
		if len(t.open) > 1 {
			why = t.allocate(ctx, only, t.open[i:i+1])
		}
		if why == noDevices {
			why = h.devices.missing(only)
		}
		if whys[i] = why; why != "" {
			whys[i], none = cmp.Or(h.apart, why), cmp.Or(none, h.name)
		}
	}
	for i, h := range t.open {
		switch {
		case whys[i] != "":
			h.say(whys[i])
		case none != "":
			h.say(gotNone(none))
		default:
			h.say("by itself it would get " + deviceNames(h.Results) + ", but there are not enough devices for all claims of the pod together")
		}
	}
}

// gotNone is the reason for a claim that gets no devices although some match: the named claim gets
// none, and a pod gets devices for all of its claims or for none.
func gotNone(claim string) string { return "claim " + claim + " of the pod gets no devices" }

// elsewhere completes the answers about open claims that get no near devices. If the pod does not
// require near devices, elsewhere names the other devices that the claims would get, or sets lacks
// if they get none.
func (t *together) elsewhere(ctx context.Context) {
	if t.claimant.mode == claims.Required {
		if t.claimant.follows(t.at) {
			for _, h := range t.open {
				h.out.Message += "; no other NUMA nodes that take the pod have enough devices for its claims"
			}
		}
		return
	}
	why := t.away()
	if why == "" {
		why = t.allocate(ctx, claims.Everywhere, t.open)
	}
	for _, h := range t.open {
		if h.out.lacks = why != ""; !h.out.lacks {
			h.out.Message += "; it would get " + deviceNames(h.Results)
		}
	}
}

// away returns the name of an allocated claim whose devices cannot be used on the node, or "".
func (t *together) away() string {
	for _, h := range t.has {
		if awayFrom(t.at.NodeState, h.object) {
			return h.name
		}
	}
	return ""
}

// awayFrom reports whether the devices of an allocated claim cannot be used on the node.
func awayFrom(n *survey.NodeState, c *resourcev1.ResourceClaim) bool {
	return c.Status.Allocation != nil && c.Status.Allocation.NodeSelector != nil && n.Object != nil && !matchesNode(n.Object, nil, c.Status.Allocation.NodeSelector)
}

func (h *claimHere) say(why string) {
	if !slices.Contains(h.whys, why) {
		h.whys = append(h.whys, why)
	}
}
