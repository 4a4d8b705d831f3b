package claims

import (
	"context"
	"maps"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-dev/berth/placement"
)

// Trial finds devices for the pods of a gang, before any of them has its own scheduling cycle. The
// allocations of a Trial exist only in the Trial. A Trial is not safe for concurrent use.
type Trial struct {
	// taken has the devices that are allocated in the cluster, outside the Trial.
	taken *structured.AllocatedState
	given map[types.UID]given
}

// given has the devices of a pod in a Trial.
type given struct {
	node     string
	required bool
	results  []resourceapi.AllocationResult
}

// Would describes the placement that a pod would have on a node.
type Would struct {
	Lying Lying
	// Sure means that Lying is certain. Loose means that, with this pod, the placements of all the
	// Trial's pods on the node become uncertain.
	Sure, Loose bool
	// Again places the pod on the node once more: near the given devices, or anywhere if near is
	// nil. Again is nil if Berth does not decide on the node.
	Again func(near *placement.Claimed) (Lying, bool)
}

// NewTrial returns a Trial. taken has the devices that are allocated in the cluster.
func NewTrial(taken *structured.AllocatedState) *Trial {
	return &Trial{taken: taken, given: map[types.UID]given{}}
}

// Give allocates devices to all claims of the pod. It returns false if the node has no suitable
// devices, or if the CPUs of a pod with mode Required would not be certain. n is nil for a pod
// without claims. Otherwise n.Taken must return true for all devices that are allocated in State.
func (t *Trial) Give(ctx context.Context, node string, n *OnNode, would *Would) bool {
	switch {
	case would.Loose && t.requires(node):
		return false // a pod that requires aligned devices would lose its certain CPUs
	case n == nil:
		return true
	case n.Mode == Required && !would.Sure:
		return false
	}
	results, found := n.give(ctx, would)
	if found {
		t.given[n.Pod.UID] = given{node, n.Mode == Required, results}
	}
	return found
}

// Take reverts Give.
func (t *Trial) Take(pod types.UID) { delete(t.given, pod) }

// Given returns the devices that a pod has in the Trial.
func (t *Trial) Given(pod types.UID) []resourceapi.AllocationResult { return t.given[pod].results }

// give chooses devices that meet the pod's requirements. If Berth decides on the node, give tries
// the same placements as the pod's own scheduling cycle (Ways).
func (n *OnNode) give(ctx context.Context, would *Would) (results []resourceapi.AllocationResult, found bool) {
	if n.Mode == Free || n.Whole || n.Allocated() || would.Again == nil {
		return n.giveAt(ctx, would.Lying, true)
	}
	tried, moved := 0, false
	again := func(near *placement.Claimed) (Lying, bool) {
		moved = true
		return would.Again(near)
	}
	for way := range Ways(would.Lying, n.Mode, func() *placement.Claimed { return n.Counted(ctx) }, again) {
		last := way.Near == nil
		if tried++; tried > MaxWays && !last {
			continue
		}
		if last && moved {
			if _, ok := would.Again(nil); !ok {
				return nil, false
			}
		}
		if results, found = n.giveAt(ctx, way.Lying, last); found && n.stays(&way, again) {
			return results, true
		}
		if !last {
			way.Near.Refute(way.Lying)
		}
	}
	return nil, false
}

// stays makes the placement in way final (placement.Claimed.Settled), and reports whether the pod
// still gets exactly this placement. The next members of the gang are planned with this result.
func (n *OnNode) stays(way *Way, again func(near *placement.Claimed) (Lying, bool)) bool {
	if way.Near == nil {
		return true
	}
	lying, ok := again(way.Near.Settled(way.Lying))
	return ok && maps.Equal(lying, way.Lying)
}

// giveAt chooses devices for a pod with this placement. If last is set, a pod that only prefers
// aligned devices gets other devices if there are no aligned ones.
func (n *OnNode) giveAt(ctx context.Context, lying Lying, last bool) ([]resourceapi.AllocationResult, bool) {
	only, fits := Everywhere, true
	if n.Mode != Free {
		r := n.Reach(lying)
		if fits = r.Misplaced == nil; !n.Whole {
			only = r.Only
		}
	}
	if !fits && n.Mode == Required {
		return nil, false
	}
	results, j, found := n.Choose(ctx, lying, only)
	if !found && last && n.Mode == Near && only != Everywhere {
		results, j, found = n.Choose(ctx, lying, Everywhere)
	}
	return results, found && j.Keeps(n.Mode)
}

// requires reports whether a pod of the trial on the node requires aligned devices.
func (t *Trial) requires(node string) bool {
	for _, g := range t.given {
		if g.node == node && g.required {
			return true
		}
	}
	return false
}

// State returns the allocations of the cluster and of the Trial.
func (t *Trial) State() *structured.AllocatedState {
	if len(t.given) == 0 {
		return t.taken
	}
	out := &structured.AllocatedState{
		AllocatedDevices: t.taken.AllocatedDevices.Clone(), AllocatedSharedDeviceIDs: t.taken.AllocatedSharedDeviceIDs.Clone(), AggregatedCapacity: t.taken.AggregatedCapacity.Clone(),
	}
	for _, g := range t.given {
		for i := range g.results {
			for k := range g.results[i].Devices.Results {
				Note(out, &g.results[i].Devices.Results[k])
			}
		}
	}
	return out
}

// Note records a device as allocated, as kube-scheduler does (dynamicresources,
// foreachAllocatedDevice).
func Note(state *structured.AllocatedState, r *resourceapi.DeviceRequestAllocationResult) {
	id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
	switch {
	case r.AdminAccess != nil && *r.AdminAccess:
	case r.ShareID != nil:
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
		if r.ConsumedCapacity != nil {
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	default:
		state.AllocatedDevices.Insert(id)
	}
}
