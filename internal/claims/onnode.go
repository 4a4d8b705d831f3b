package claims

import (
	"cmp"
	"context"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// PodClaim is a claim of a pod. Ref is the claim's name in spec.resourceClaims.
type PodClaim struct {
	Ref string
	*resourceapi.ResourceClaim
}

// Judged returns the claim as Judge expects it, but without its devices.
func (c *PodClaim) Judged(pod *corev1.Pod, lying Lying) Claim {
	return Claim{Name: c.Namespace + "/" + c.Name, Users: Users(pod, c.Ref, lying)}
}

// OnNode has the claims of a pod, and the devices of a node on which the pod may be placed.
type OnNode struct {
	Pod    *corev1.Pod
	Mode   Mode
	Claims []PodClaim
	// Extended is the claim for extended resources on the node (function Extended), or nil.
	Extended *resourceapi.ResourceClaim
	// Whole means that the allocator must see all devices of the node, for example because a claim
	// takes all of them (TakesAll).
	Whole bool
	// Stock has the node's devices. Its Inventory may be nil; the method Devices then creates it
	// with Read.
	Stock
	Read func() *Inventory
	// Allocate calls kube-scheduler's allocator, which chooses devices for claims. If it finds too
	// few devices, why has the reason.
	Allocate func(ctx context.Context, shown []*resourceapi.ResourceSlice, open []*resourceapi.ResourceClaim) (results []resourceapi.AllocationResult, why string)
}

// Devices returns the node's devices with their places.
func (n *OnNode) Devices() *Inventory {
	if n.Inventory == nil {
		n.Inventory = n.Read()
	}
	return n.Inventory
}

// Allocated reports whether all claims of the pod already have devices.
func (n *OnNode) Allocated() bool {
	return n.Extended == nil && !slices.ContainsFunc(n.Claims, func(c PodClaim) bool { return c.Status.Allocation == nil })
}

// all yields the claims of the pod, with the claim for extended resources last. Each Claim is as
// Judge expects it, but without its devices.
func (n *OnNode) all(lying Lying) iter.Seq2[*resourceapi.ResourceClaim, Claim] {
	return func(yield func(*resourceapi.ResourceClaim, Claim) bool) {
		for i := range n.Claims {
			if !yield(n.Claims[i].ResourceClaim, n.Claims[i].Judged(n.Pod, lying)) {
				return
			}
		}
		if n.Extended != nil {
			yield(n.Extended, Claim{Name: ForExtended, Users: UsersOfExtended(n.Pod, lying)})
		}
	}
}

// Counted counts, for each request of the pod's claims, the suitable devices of the node by NUMA
// node (Stock.Claimed). It returns nil if there is nothing to count.
func (n *OnNode) Counted(ctx context.Context) *placement.Claimed {
	var asks []Ask
	for claim, of := range n.all(nil) {
		asks = append(asks, Ask{claim, of.Users})
	}
	n.Devices()
	return n.Claimed(ctx, asks)
}

// Reached describes which devices would be aligned for the claims of a pod.
type Reached struct {
	// Only has the NUMA nodes on which a device would be aligned for at least one claim without
	// devices. Claims that accept any device do not count; if no claim counts, Only is Everywhere.
	// Only is empty if the claims that count accept only devices without a NUMA node.
	Only topology.NUMASet
	// Misplaced is a claim whose allocated devices are not aligned, or nil. Why explains the
	// misplacement, or explains why no device of some claim would be aligned. Otherwise Why is "".
	Misplaced *resourceapi.ResourceClaim
	Why       string
	// Loose means that some claim accepts any device. Apart means that a device can be aligned for
	// one claim or request but not for another.
	Loose, Apart bool
}

// Reach returns which devices would be aligned for the pod with this placement.
func (n *OnNode) Reach(lying Lying) (r Reached) {
	restricted := false
	for claim, of := range n.all(lying) {
		if has := claim.Status.Allocation; has != nil {
			of.Results = has.Devices.Results
			if j := Judge(n.Devices(), []Claim{of}); !j.Serves(n.Mode) {
				return Reached{Misplaced: claim, Why: j.Why()}
			}
			continue
		}
		wanted, why, apart := of.Reach(n.Mode)
		if wanted == Everywhere {
			r.Loose = true
			continue
		}
		r.Why = cmp.Or(why, r.Why)
		r.Apart = r.Apart || apart || restricted && wanted != r.Only
		r.Only, restricted = r.Only|wanted, true
	}
	if !restricted {
		r.Only = Everywhere
	}
	return r
}

// Shown returns the node's slices for an allocator (Inventory.Show). The slices have no devices on
// NUMA nodes outside the given set, except allocated devices that consume shared counters.
func (n *OnNode) Shown(only topology.NUMASet) []*resourceapi.ResourceSlice {
	if only == Everywhere {
		return n.Slices
	}
	consumes := func(id DeviceID, d *resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 && n.Taken(id) }
	shown := make([]*resourceapi.ResourceSlice, len(n.Slices))
	for i, s := range n.Slices {
		shown[i] = n.Devices().Show(s, only, consumes)
	}
	return shown
}

// Choose calls Allocate for the claims that have no devices. Allocate sees only the slices that
// Shown returns for the given NUMA nodes. Choose judges the result for a pod with this placement,
// and returns false if there are too few devices.
func (n *OnNode) Choose(ctx context.Context, lying Lying, only topology.NUMASet) (results []resourceapi.AllocationResult, j Judgement, found bool) {
	var open []*resourceapi.ResourceClaim
	var chosen []Claim
	for claim, of := range n.all(lying) {
		if claim.Status.Allocation == nil {
			open, chosen = append(open, claim), append(chosen, of)
		}
	}
	if len(open) == 0 {
		return nil, j, true
	}
	results, why := n.Allocate(ctx, n.Shown(only), open)
	if why != "" {
		return nil, j, false
	}
	for i := range results {
		chosen[i].Results = results[i].Devices.Results
	}
	return results, Judge(n.Devices(), chosen), true
}
