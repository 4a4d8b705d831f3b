package steer

import (
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// view is the handle of the original plugin. It shows other ResourceSlices while one node is
// prepared, and the cluster's at all other times.
type view struct {
	fwk.Handle
	// mu is held while the original prepares a pod: it lists slices without naming the pod.
	mu sync.Mutex
	// shown are the listed slices; nil means those of the cluster.
	shown atomic.Pointer[prepared]
	// special receives the claim for extended resources that the original allocates; nil if nobody
	// waits for it.
	special atomic.Pointer[extended]
}

// extended is the claim that the original has allocated for the extended resources of a pod, in its
// cycle's state. The API server gets it in PreBind.
type extended struct{ claim *resourceapi.ResourceClaim }

// Clone implements fwk.StateData.
func (e *extended) Clone() fwk.StateData { return e }

// prepared is what the original sees of the cluster.
type prepared struct {
	// slices replace the cluster's; nil means the cluster's.
	slices []*resourceapi.ResourceSlice
	// taken is the state of all devices, as it was when the attempt began.
	taken *taken
}

// taken are the devices that are allocated, in the form in which the original asked for them.
type taken struct {
	state *structured.AllocatedState
	list  sets.Set[structured.DeviceID]
}

// has reports whether a device or a part of it is allocated.
func (t *taken) has(id structured.DeviceID) bool {
	if t.state != nil {
		return structured.IsDeviceAllocated(id, t.state)
	}
	return t.list.Has(id)
}

// during runs prepare while the original sees p.
func (v *view) during(p *prepared, prepare func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shown.Store(p)
	defer v.shown.Store(nil)
	prepare()
}

// reserving runs reserve, and returns the claim that it allocates for extended resources; its claim
// is nil for none. Such claims are in no list before PreBind.
func (v *view) reserving(reserve func() *fwk.Status) (*extended, *fwk.Status) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := &extended{}
	v.special.Store(found)
	defer v.special.Store(nil)
	return found, reserve()
}

// SharedDRAManager implements fwk.Handle.
func (v *view) SharedDRAManager() fwk.SharedDRAManager {
	return manager{v.Handle.SharedDRAManager(), v}
}

type manager struct {
	fwk.SharedDRAManager
	view *view
}

// ResourceSlices implements fwk.SharedDRAManager.
func (m manager) ResourceSlices() fwk.ResourceSliceLister {
	return lister{m.SharedDRAManager.ResourceSlices(), m.view}
}

// ResourceClaims implements fwk.SharedDRAManager.
func (m manager) ResourceClaims() fwk.ResourceClaimTracker {
	return tracker{m.SharedDRAManager.ResourceClaims(), m.view}
}

type lister struct {
	fwk.ResourceSliceLister
	view *view
}

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister.
func (l lister) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	if p := l.view.shown.Load(); p != nil && p.slices != nil {
		return p.slices, nil
	}
	return l.ResourceSliceLister.ListWithDeviceTaintRules()
}

// tracker collects the allocated devices once for an attempt. The original would do so for every
// way of every node.
type tracker struct {
	fwk.ResourceClaimTracker
	view *view
}

// GatherAllocatedState implements fwk.ResourceClaimTracker.
func (t tracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	p := t.view.shown.Load()
	if p != nil && p.taken.state != nil {
		return p.taken.state, nil
	}
	state, err := t.ResourceClaimTracker.GatherAllocatedState()
	if p != nil && err == nil {
		p.taken.state = state
	}
	return state, err
}

// SignalClaimPendingAllocation implements fwk.ResourceClaimTracker.
func (t tracker) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	err := t.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim)
	if found := t.view.special.Load(); found != nil && err == nil && isSpecial(claim) {
		found.claim = claim
	}
	return err
}

// isSpecial reports whether the original has made the claim for extended resources.
func isSpecial(claim *resourceapi.ResourceClaim) bool {
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}

// ListAllAllocatedDevices implements fwk.ResourceClaimTracker.
func (t tracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	p := t.view.shown.Load()
	if p != nil && p.taken.list != nil {
		return p.taken.list, nil
	}
	list, err := t.ResourceClaimTracker.ListAllAllocatedDevices()
	if p != nil && err == nil {
		p.taken.list = list
	}
	return list, err
}
