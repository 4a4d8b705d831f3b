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

// view is the framework handle that DynamicResources uses. While the method view.during runs,
// DynamicResources may see copies of one node's ResourceSlices. At all other times it sees the
// ResourceSlices of the cluster.
type view struct {
	fwk.Handle
	// mu is held while DynamicResources prepares a pod. Only one pod can be prepared at a time,
	// because DynamicResources does not name the pod when it lists slices.
	mu sync.Mutex
	// shown is the part of the cluster that DynamicResources sees; nil means the whole cluster.
	shown atomic.Pointer[prepared]
	// special receives the claim that DynamicResources allocates for extended resources. It is nil
	// unless the method view.reserving runs.
	special atomic.Pointer[extended]
}

// extended is the claim that DynamicResources has allocated for the extended resources of a pod. It
// is in the pod's cycle state until PreBind writes it to the API server.
type extended struct{ claim *resourceapi.ResourceClaim }

// Clone implements fwk.StateData.
func (e *extended) Clone() fwk.StateData { return e }

// prepared is the part of the cluster that DynamicResources sees.
type prepared struct {
	// slices replaces the cluster's slices unless it is nil.
	slices []*resourceapi.ResourceSlice
	// taken has the devices that were allocated when the attempt began.
	taken *taken
}

// taken has the allocated devices, in the two forms in which DynamicResources may ask for them.
type taken struct {
	state *structured.AllocatedState
	list  sets.Set[structured.DeviceID]
}

// has reports whether a device, or a part of the device, is allocated.
func (t *taken) has(id structured.DeviceID) bool {
	if t.state != nil {
		return structured.IsDeviceAllocated(id, t.state)
	}
	return t.list.Has(id)
}

// during calls the function prepare. Meanwhile DynamicResources sees p.
func (v *view) during(p *prepared, prepare func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shown.Store(p)
	defer v.shown.Store(nil)
	prepare()
}

// reserving calls the function reserve, and returns the claim that it allocates for extended
// resources. Before PreBind, this claim cannot be read from the API.
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

// tracker collects the allocated devices once for an attempt. Without tracker, DynamicResources
// would collect them again for every way on every node.
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

// isSpecial reports whether the claim is one that DynamicResources makes for extended resources.
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
