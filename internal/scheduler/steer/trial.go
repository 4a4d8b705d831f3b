package steer

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
)

// Trial finds devices for pods that are planned together, before any of them has its own cycle. Its
// allocations are visible only in the trial. It is not safe for concurrent use.
type Trial struct {
	plugin *Plugin
	ctx    context.Context //nolint:containedctx // a trial lives as long as the call that makes it
	// lists has the slices, and taken the allocated devices. Both are nil before they are first
	// needed.
	lists *attempt
	taken *structured.AllocatedState
	pods  map[types.UID]*attempt
	given map[types.UID]given
}

// given has a pod's devices in a trial.
type given struct {
	node     string
	required bool
	results  []resourceapi.AllocationResult
}

// Would describes how a pod would be placed on a node.
type Would struct {
	Lying Lying
	// Sure means that Lying is certain. Loose means that no placement on the node is certain, for
	// any pod of the trial.
	Sure, Loose bool
	// Again places the pod elsewhere on the node: near these devices, or anywhere if near is nil.
	// Again is nil if Berth does not decide on the node.
	Again func(near *placement.Claimed) (Lying, bool)
}

// Trial begins a trial.
func (p *Plugin) Trial(ctx context.Context) *Trial {
	return &Trial{plugin: p, ctx: ctx, pods: map[types.UID]*attempt{}, given: map[types.UID]given{}}
}

// Give allocates devices to all claims of the pod. It returns false if the node does not have them.
func (t *Trial) Give(pod *corev1.Pod, on fwk.NodeInfo, would Would) bool {
	node := on.Node().Name
	if would.Loose && t.requires(node) {
		return false // the CPUs of a pod that requires aligned devices would become uncertain
	}
	a := t.of(pod)
	if a == nil {
		return true
	}
	if a.mode == claims.Required && !would.Sure {
		return false
	}
	a.taken = &taken{state: t.state()}
	n := &onNode{attempt: a, plugin: t.plugin, pod: pod, info: on, slices: a.slicesOf(node)}
	results, found := n.give(t.ctx, &would)
	if found {
		t.given[pod.UID] = given{node, a.mode == claims.Required, results}
	}
	return found
}

// Take releases a pod's devices.
func (t *Trial) Take(pod types.UID) { delete(t.given, pod) }

// give chooses devices that meet the pod's requirements. If Berth decides on the node, give tries
// the same ways as the pod's own cycle.
func (n *onNode) give(ctx context.Context, would *Would) (results []resourceapi.AllocationResult, found bool) {
	if n.mode == claims.Free || !n.steered || n.allocated() || would.Again == nil {
		return n.giveAt(ctx, would.Lying, true)
	}
	tried, moved := 0, false
	again := func(near *placement.Claimed) (Lying, bool) {
		moved = true
		return would.Again(near)
	}
	for way := range claims.Ways(would.Lying, n.mode, func() *placement.Claimed { return n.stock(ctx) }, again) {
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

// stays places the pod near its devices, and reports whether that is the way that was tried. The
// next members of the gang are planned around this placement.
func (n *onNode) stays(way *Way, again func(near *placement.Claimed) (Lying, bool)) bool {
	if way.Near == nil {
		return true
	}
	lying, ok := again(way.Near.Settled(way.Lying))
	return ok && maps.Equal(lying, way.Lying)
}

// giveAt chooses devices for a pod with this placement. On the last way, a pod that only prefers
// aligned devices gets any devices.
func (n *onNode) giveAt(ctx context.Context, lying Lying, last bool) ([]resourceapi.AllocationResult, bool) {
	only, fits := all, true
	if n.mode != claims.Free {
		if only, fits = n.reach(lying); !n.steered {
			only = all
		}
	}
	if !fits && n.mode == claims.Required {
		return nil, false
	}
	results, j, found := n.allocation(ctx, lying, only)
	if !found && last && n.mode == claims.Near && only != all {
		results, j, found = n.allocation(ctx, lying, all)
	}
	return results, found && j.Keeps(n.mode)
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

// of returns the attempt for a pod with claims. It returns nil for a pod without claims, or with an
// error that the pod's own cycle will report.
func (t *Trial) of(pod *corev1.Pod) *attempt {
	if a, known := t.pods[pod.UID]; known {
		return a
	}
	a, err := t.read(pod)
	if err != nil {
		klog.FromContext(t.ctx).V(2).Info("A pod is planned without regard to its claims", "pod", klog.KObj(pod), "err", err)
	}
	t.pods[pod.UID] = a
	return a
}

func (t *Trial) read(pod *corev1.Pod) (*attempt, error) {
	if len(pod.Spec.ResourceClaims) == 0 && !t.plugin.driversOffer(pod) {
		return nil, nil //nolint:nilnil // most pods have none
	}
	mode, err := t.plugin.berth.Mode(pod)
	if err != nil {
		return nil, err
	}
	list, err := t.plugin.claimsOf(pod)
	if err != nil {
		return nil, err
	}
	if t.lists == nil {
		read := &attempt{}
		if err := t.plugin.readSlices(read); err != nil {
			return nil, err
		}
		t.lists = read
	}
	if t.taken == nil {
		if t.taken, err = t.plugin.handle.SharedDRAManager().ResourceClaims().GatherAllocatedState(); err != nil {
			return nil, err
		}
	}
	takesAll := slices.ContainsFunc(list, func(c podClaim) bool { return claims.TakesAll(c.ResourceClaim) })
	return &attempt{mode: mode, claims: list, byNode: t.lists.byNode, shared: t.lists.shared, steered: !t.plugin.whole && !takesAll}, nil
}

// state returns the allocations of the cluster and of the trial.
func (t *Trial) state() *structured.AllocatedState {
	if len(t.given) == 0 {
		return t.taken
	}
	out := &structured.AllocatedState{
		AllocatedDevices: t.taken.AllocatedDevices.Clone(), AllocatedSharedDeviceIDs: t.taken.AllocatedSharedDeviceIDs.Clone(), AggregatedCapacity: t.taken.AggregatedCapacity.Clone(),
	}
	for _, g := range t.given {
		for i := range g.results {
			for k := range g.results[i].Devices.Results {
				note(out, &g.results[i].Devices.Results[k])
			}
		}
	}
	return out
}

// note records a device as allocated, as DynamicResources does (foreachAllocatedDevice).
func note(state *structured.AllocatedState, r *resourceapi.DeviceRequestAllocationResult) {
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
