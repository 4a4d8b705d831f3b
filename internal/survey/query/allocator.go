package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// allocatorFeatures are kube-scheduler's default features, plus device attributes that are lists.
// If the API server's feature gate for such attributes is off, no slice has them, so enabling them
// does no harm.
var allocatorFeatures = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, DeviceBindingAndStatus: true, ConsumableCapacity: true, ListTypeAttributes: true,
}

// maxSelectors is the maximum number of compiled selectors in the cache.
const maxSelectors = 64

// allocator allocates devices to claims. It applies kube-scheduler's allocator to the objects in a
// source.HandedOut. It ignores DeviceTaintRules.
type allocator struct {
	slices    []*resourcev1.ResourceSlice
	pools     claims.Pools
	classes   classLister
	extended  *extendedresourcecache.ExtendedResourceCache // the device classes by extended resource
	sources   claims.Sources
	taken     map[claims.DeviceID]string // by device: the claim or pod that has it
	state     structured.AllocatedState
	selectors *cel.Cache
}

func newAllocator(h *source.HandedOut, terms *wire.Terms) *allocator {
	a := &allocator{
		slices: h.Slices, pools: claims.PoolsOf(h.Slices), classes: h.Classes, sources: terms.Sources(), taken: map[claims.DeviceID]string{},
		state: structured.AllocatedState{
			AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection(),
		},
		selectors: cel.NewCache(maxSelectors, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}),
		extended:  extendedresourcecache.NewExtendedResourceCache(klog.Logger{}),
	}
	for _, class := range h.Classes {
		a.extended.OnAdd(class, true)
	}
	for _, c := range h.Claims {
		if c.Status.Allocation == nil {
			continue
		}
		for i := range c.Status.Allocation.Devices.Results {
			a.take(c.Namespace+"/"+c.Name, &c.Status.Allocation.Devices.Results[i])
		}
	}
	return a
}

// take records that a device is allocated. The text `by` names the claim or the pod that has it.
func (a *allocator) take(by string, r *resourcev1.DeviceRequestAllocationResult) {
	claims.Note(&a.state, r)
	if r.ShareID == nil && (r.AdminAccess == nil || !*r.AdminAccess) {
		a.taken[claims.DeviceID{Driver: r.Driver, Pool: r.Pool, Name: r.Device}] = by
	}
}

// classLister implements structured.DeviceClassLister.
type classLister []*resourcev1.DeviceClass

func (l classLister) List() ([]*resourcev1.DeviceClass, error) { return l, nil }

func (l classLister) Get(name string) (*resourcev1.DeviceClass, error) {
	if i := slices.IndexFunc(l, func(c *resourcev1.DeviceClass) bool { return c.Name == name }); i >= 0 {
		return l[i], nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
}

// slicesOf returns the ResourceSlices with devices that the node can use. `object` is nil if Nodes
// may not be read.
func (a *allocator) slicesOf(object *corev1.Node, name string) (out []*resourcev1.ResourceSlice) {
	for _, s := range a.slices {
		each := s.Spec.PerDeviceNodeSelection != nil && *s.Spec.PerDeviceNodeSelection
		if owner := claims.NodeOf(s); owner == name || owner == "" && (each || matchesNode(object, s.Spec.AllNodes, s.Spec.NodeSelector)) {
			out = append(out, s)
		}
	}
	return out
}

func matchesNode(object *corev1.Node, all *bool, selector *corev1.NodeSelector) bool {
	if object == nil {
		return all != nil && *all
	}
	ok, err := structured.NodeMatches(allocatorFeatures, object, "", all != nil && *all, selector)
	return ok && err == nil
}

// devicesFor finds the devices of a node that match the requests of one claim.
type devicesFor struct {
	allocator *allocator
	claim     *resourcev1.ResourceClaim
	node      *survey.NodeState
	slices    []*resourcev1.ResourceSlice
	inventory *claims.Inventory
	matching  []claims.DeviceID
}

// sort sets n.matching to the devices that match, in the order of their names. In each pool, it
// uses only the slices of the newest generation.
func (n *devicesFor) sort(ctx context.Context) error {
	wishes, err := n.wishes()
	if err != nil {
		return err
	}
	for _, s := range claims.Newest(n.slices) {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if !n.has(s, d) {
				continue
			}
			ok, err := n.matches(ctx, wishes, s.Spec.Driver, d)
			if err != nil {
				return err
			}
			if ok {
				n.matching = append(n.matching, claims.DeviceID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Name: d.Name})
			}
		}
	}
	slices.SortFunc(n.matching, func(a, b claims.DeviceID) int { return strings.Compare(a.String(), b.String()) })
	return nil
}

// has reports whether the node can use device d of slice s.
func (n *devicesFor) has(s *resourcev1.ResourceSlice, d *resourcev1.Device) bool {
	if s.Spec.PerDeviceNodeSelection == nil || !*s.Spec.PerDeviceNodeSelection {
		return true
	}
	if d.NodeName != nil {
		return *d.NodeName == n.node.Name
	}
	return matchesNode(n.node.Object, d.AllNodes, d.NodeSelector)
}

// wishes returns the selectors of each request and subrequest of the claim, including the selectors
// of its device class.
func (n *devicesFor) wishes() (out [][]resourcev1.DeviceSelector, err error) {
	add := func(request, class string, own []resourcev1.DeviceSelector) {
		c, missing := n.allocator.classes.Get(class)
		if missing != nil {
			err = fmt.Errorf("claim %s/%s: request %s: deviceClassName %s: want a DeviceClass that exists", n.claim.Namespace, n.claim.Name, request, class)
			return
		}
		all := slices.Concat(c.Spec.Selectors, own)
		if slices.ContainsFunc(all, func(s resourcev1.DeviceSelector) bool { return s.CEL == nil }) { // the allocator would panic
			err = fmt.Errorf("claim %s/%s: request %s: a selector has no field cel: want a CEL expression", n.claim.Namespace, n.claim.Name, request)
			return
		}
		out = append(out, all)
	}
	for i := range n.claim.Spec.Devices.Requests {
		r := &n.claim.Spec.Devices.Requests[i]
		if r.Exactly != nil {
			add(r.Name, r.Exactly.DeviceClassName, r.Exactly.Selectors)
		}
		for k := range r.FirstAvailable {
			add(r.Name+"/"+r.FirstAvailable[k].Name, r.FirstAvailable[k].DeviceClassName, r.FirstAvailable[k].Selectors)
		}
		if r.Exactly == nil && len(r.FirstAvailable) == 0 {
			err = fmt.Errorf("claim %s/%s: request %s has neither the field \"exactly\" nor \"firstAvailable\": want one of them", n.claim.Namespace, n.claim.Name, r.Name)
		}
	}
	return out, err
}

// matches reports whether a device matches at least one of the requests. A device must match all
// selectors of a request.
func (n *devicesFor) matches(ctx context.Context, wishes [][]resourcev1.DeviceSelector, driver string, d *resourcev1.Device) (bool, error) {
	device := cel.Device{Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity}
	for _, selectors := range wishes {
		all := true
		for i := range selectors {
			compiled := n.allocator.selectors.GetOrCompile(selectors[i].CEL.Expression)
			if compiled.Error != nil {
				return false, fmt.Errorf("selector %q: %w", selectors[i].CEL.Expression, compiled.Error)
			}
			ok, _, err := compiled.DeviceMatches(ctx, device)
			if err != nil {
				return false, fmt.Errorf("selector %q: device %s/%s: %w", selectors[i].CEL.Expression, driver, d.Name, err)
			}
			if all = ok; !ok {
				break
			}
		}
		if all {
			return true, nil
		}
	}
	return false, nil
}

// noDevices is the reason that allocate returns if the free devices do not satisfy all claims.
const noDevices = "there are not enough devices"

// allocate allocates devices of the shown slices to all claims together. If it cannot, it returns
// the reason; "" means success. The allocator may panic on a snapshot, because it relies on
// validation by the API server, and no API server has validated the snapshot.
func (a *allocator) allocate(ctx context.Context, on *survey.NodeState, shown []*resourcev1.ResourceSlice, list []*resourcev1.ResourceClaim) (results []resourcev1.AllocationResult, why string) {
	defer func() {
		if r := recover(); r != nil {
			results, why = nil, fmt.Sprintf("an API server would not accept the ResourceClaim, DeviceClasses or ResourceSlices: %v", r)
		}
	}()
	made, err := structured.NewAllocator(ctx, allocatorFeatures, a.state, a.classes, a.pools.Complete(shown), a.selectors)
	if err != nil {
		return nil, err.Error()
	}
	object := on.Object
	if object == nil {
		object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: on.Name}}
	}
	found, err := made.Allocate(ctx, object, list)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, "the search for devices took too long"
	case err != nil:
		return nil, err.Error()
	case len(found) != len(list):
		return nil, noDevices
	}
	return found, ""
}

// missing explains why the claim gets no devices on the given NUMA nodes: no device matches, all
// matching devices are taken, or the claim needs more or other devices than are free.
func (n *devicesFor) missing(only topology.NUMASet) string {
	where, matching, free := "", 0, 0
	if only != claims.Everywhere {
		nodes := " on NUMA node "
		if only.Len() > 1 {
			nodes = " on NUMA nodes "
		}
		where = nodes + only.String() + ", where the pod's CPUs would be,"
	}
	if only == 0 {
		where = " without a NUMA node"
	}
	for _, id := range n.matching {
		if p := n.inventory.Place(id); p.Standing != claims.Neutral && (p.Standing != claims.Located || !only.Has(p.NUMA)) {
			continue
		}
		if matching++; n.allocator.taken[id] == "" {
			free++
		}
	}
	switch {
	case matching == 0:
		return "no device" + where + " matches the claim's requests"
	case free == 0:
		return "every device" + where + " that matches the claim's requests is taken"
	}
	is := "are"
	if free == 1 {
		is = "is"
	}
	return fmt.Sprintf("%d of %d matching devices%s %s free, but the claim needs more or other devices", free, matching, where, is)
}

// rows returns the matching devices by NUMA node. Devices without a NUMA node come last. If known
// is true, near is the set of the CPUs' NUMA nodes. If the containers have no NUMA node in common,
// apart explains this; otherwise it is "".
func (n *devicesFor) rows(near topology.NUMASet, known bool, apart string) (out []ClaimOnNUMANode) {
	const none, unknown = topology.MaxNUMANodes, topology.MaxNUMANodes + 1
	by := map[topology.NUMAID]*ClaimOnNUMANode{}
	for _, id := range n.matching {
		p := n.inventory.Place(id)
		at := p.NUMA
		switch p.Standing {
		case claims.Located:
		case claims.Neutral:
			at = none
		default:
			at = unknown
		}
		row := by[at]
		if row == nil {
			row = &ClaimOnNUMANode{NUMANode: fmt.Sprint(at), Near: at == none || known && near.Has(at), Free: []string{}}
			switch {
			case at == none:
				row.NUMANode = "none"
			case at == unknown:
				row.NUMANode, row.Why = "unknown", p.String()
			case known && !row.Near && near == 0:
				row.Why = cmp.Or(apart, "the node pins no container that uses the claim")
			case known && !row.Near:
				row.Why = "its CPUs would be on NUMA node " + near.String()
			}
			by[at] = row
		}
		name := id.Driver + "/" + id.Name
		if by := n.allocator.taken[id]; by != "" {
			if row.TakenCount++; row.TakenCount <= maxDevicesNamed {
				row.Taken = append(row.Taken, name+" by "+by)
			}
		} else if row.FreeCount++; row.FreeCount <= maxDevicesNamed {
			row.Free = append(row.Free, name)
		}
	}
	for at := range topology.NUMAID(unknown + 1) {
		if row := by[at]; row != nil {
			out = append(out, *row)
		}
	}
	return out
}

func deviceNames(results []resourcev1.DeviceRequestAllocationResult) string {
	var names []string
	for i := range results {
		if i == maxDevicesNamed {
			names = append(names, "...")
			break
		}
		names = append(names, results[i].Driver+"/"+results[i].Device)
	}
	if len(names) == 0 {
		return "no device"
	}
	return strings.Join(names, ", ")
}
