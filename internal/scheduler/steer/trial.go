package steer

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/topology"
)

// Trial finds devices for the claims of pods that are planned together, before any of them has its
// own cycle. Its allocations are visible only in the trial. It is not safe for concurrent use.
//
// It ignores extended resources: their devices are chosen when the pod has its node.
type Trial struct {
	plugin *Plugin
	ctx    context.Context //nolint:containedctx // a trial lives as long as the call that makes it
	// lists are the slices, and taken the allocated devices; nil before the first question.
	lists *attempt
	taken *structured.AllocatedState
	pods  map[types.UID]*attempt
	given map[types.UID]given
}

// given are a pod's devices in a trial.
type given struct {
	node     string
	required bool
	results  []resourceapi.AllocationResult
}

// Would is how a pod would lie on a node.
type Would struct {
	Lying Lying
	// Sure means that it would certainly lie so. Loose means that no pod of the trial certainly
	// lies on the node.
	Sure, Loose bool
}

// Trial begins a trial.
func (p *Plugin) Trial(ctx context.Context) *Trial {
	return &Trial{plugin: p, ctx: ctx, pods: map[types.UID]*attempt{}, given: map[types.UID]given{}}
}

// Give gives the pod devices for all its claims, and reports false if it cannot have them there.
func (t *Trial) Give(pod *corev1.Pod, on fwk.NodeInfo, would Would) bool {
	node := on.Node().Name
	if would.Loose && t.requires(node) {
		return false // it would unsettle the CPUs of another one
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
	only, fits := all, true
	if a.mode != claims.Free {
		if only, fits = n.reach(would.Lying); !a.steered {
			only = all
		}
	}
	if !fits && a.mode == claims.Required {
		return false
	}
	results, found := n.give(t.ctx, would.Lying, only)
	if !found && a.mode == claims.Near && only != all {
		results, found = n.give(t.ctx, would.Lying, all)
	}
	if found {
		t.given[pod.UID] = given{node, a.mode == claims.Required, results}
	}
	return found
}

// Take takes a pod's devices.
func (t *Trial) Take(pod types.UID) { delete(t.given, pod) }

// give chooses devices on these NUMA nodes that meet the pod's requirements.
func (n *onNode) give(ctx context.Context, lying Lying, only topology.NUMASet) ([]resourceapi.AllocationResult, bool) {
	results, j, found := n.allocation(ctx, lying, only)
	return results, found && j.Keeps(n.mode)
}

// requires reports whether a pod of the trial on the node requires its devices to be near.
func (t *Trial) requires(node string) bool {
	for _, g := range t.given {
		if g.node == node && g.required {
			return true
		}
	}
	return false
}

// of returns the attempt for a pod with claims; nil without claims, or if its own cycle will report
// an error.
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
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil, nil //nolint:nilnil // most pods have none
	}
	mode, err := t.plugin.berth.Mode(pod)
	if err != nil {
		return nil, err
	}
	list, err := t.plugin.claimsOf(pod)
	if err != nil || len(list) == 0 {
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

// note records a device as allocated, as the original does (foreachAllocatedDevice).
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
