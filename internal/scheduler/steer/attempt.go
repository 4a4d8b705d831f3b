package steer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

const (
	attemptKey  fwk.StateKey = Name
	extendedKey fwk.StateKey = Name + "/extended"
	// originalKey is the key under which DynamicResources stores its state of a cycle.
	originalKey fwk.StateKey = dynamicresources.Name
)

// attempt is the plugin's state for one attempt to place a pod that asks for devices near its CPUs.
type attempt struct {
	mode   claims.Mode
	claims []claims.PodClaim
	// byNode has the ResourceSlices with spec.nodeName, by node. shared has all other
	// ResourceSlices.
	byNode map[string][]*resourceapi.ResourceSlice
	shared []*resourceapi.ResourceSlice
	pools  claims.Pools
	taken  *taken
	// steered means that Filter may hide devices from DynamicResources.
	steered bool

	mu sync.Mutex
	// chosen has, by node, the state of DynamicResources with which the pod fits on the node while
	// some devices are hidden.
	chosen map[string]fwk.StateData
	// versions has, by node, the version of the node before the pod was reserved on it.
	versions map[string]version
	// misplaced has the claims whose devices are allocated on a node where the pod cannot be placed
	// near them.
	misplaced map[types.UID]bool

	// pending has the claims that Reserve has allocated in this attempt.
	pending []claims.PodClaim
	// written means that PreBind has begun to write the claims. refused means that this plugin has
	// refused the node in Reserve or later, so no Binding was sent.
	written, refused bool
	// alignment is the result of the last check of the devices. judged means that there was a
	// check.
	alignment claims.Alignment
	judged    bool
}

// Clone implements fwk.StateData. Dry runs share the attempt, as they share the state of
// DynamicResources.
func (a *attempt) Clone() fwk.StateData { return a }

func attemptOf(state fwk.CycleState) *attempt {
	data, _ := state.Read(attemptKey)
	a, _ := data.(*attempt)
	return a
}

// PreFilter implements fwk.PreFilterPlugin.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !claims.MayClaim(pod) {
		return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
	}
	mode, err := p.berth.Mode(pod)
	switch {
	case err != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth cannot read the pod: "+err.Error())
	case mode == claims.Free:
		return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
	}
	a := &attempt{mode: mode, taken: &taken{}, chosen: map[string]fwk.StateData{}, versions: map[string]version{}}
	var result *fwk.PreFilterResult
	var status *fwk.Status
	p.view.during(&prepared{taken: a.taken}, func() { result, status = p.DynamicResources.PreFilter(ctx, state, pod, nodes) })
	if !status.IsSuccess() {
		return result, status
	}
	if a.claims, err = p.claimsOf(pod); err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	a.steered = !p.whole
	for _, c := range a.claims {
		if why := claims.Unserved(pod.UID, c.ResourceClaim); why != "" {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: berth.dev/claims: "+mode.String()+": "+why)
		}
		a.steered = a.steered && !claims.TakesAll(c.ResourceClaim)
	}
	if err := p.readSlices(a); err != nil {
		return nil, fwk.AsStatus(err)
	}
	state.Write(attemptKey, a)
	return result, nil
}

// claimsOf returns the claims of the pod. It skips an entry of spec.resourceClaims for which no
// claim is needed, as DynamicResources does.
func (p *Plugin) claimsOf(pod *corev1.Pod) ([]claims.PodClaim, error) {
	var out []claims.PodClaim
	for i := range pod.Spec.ResourceClaims {
		of := &pod.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(pod, of)
		switch {
		case err != nil:
			return nil, err
		case name == nil:
			continue
		}
		claim, err := p.handle.SharedDRAManager().ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return nil, err
		}
		out = append(out, claims.PodClaim{Ref: of.Name, ResourceClaim: claim})
	}
	return out, nil
}

// readSlices groups the cluster's ResourceSlices by node.
func (p *Plugin) readSlices(a *attempt) error {
	list, err := p.handle.SharedDRAManager().ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return err
	}
	a.byNode, a.pools = map[string][]*resourceapi.ResourceSlice{}, claims.PoolsOf(list)
	for _, s := range list {
		if node := claims.NodeOf(s); node != "" {
			a.byNode[node] = append(a.byNode[node], s)
		} else {
			a.shared = append(a.shared, s)
		}
	}
	return nil
}

// slicesOf returns the ResourceSlices that may have devices for a node.
func (a *attempt) slicesOf(node string) []*resourceapi.ResourceSlice {
	return slices.Concat(a.byNode[node], a.shared)
}

// Filter implements fwk.FilterPlugin.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	a := attemptOf(state)
	if a == nil {
		return p.DynamicResources.Filter(ctx, state, pod, info)
	}
	node := info.Node().Name
	n := p.on(a, pod, info)
	ways := p.berth.Ways(state, pod, info, a.mode, func() *placement.Claimed { return n.Counted(ctx) })
	if ways.Known == Unasked {
		return p.DynamicResources.Filter(ctx, state, pod, info)
	}
	v := versionOf(n.Slices, p.berth.Free(node))
	if why := p.excluded.why(pod.UID, node, v); why != "" && a.mode == claims.Required {
		return keepOff(why)
	}
	a.note(node, v)
	status, found := n.steer(ctx, state, ways)
	if found {
		return status
	}
	p.berth.Keep(state, node, nil)
	a.choose(node, nil)
	status = p.DynamicResources.Filter(ctx, state, pod, info)
	if !status.IsSuccess() || a.mode != claims.Required || n.loose {
		return status
	}
	if ways.Known == Unforeseen {
		return fwk.NewStatus(fwk.Pending, asRequired+ways.Why)
	}
	return keepOff(n.why(ctx))
}

// keepOff returns the status of a node whose devices are not where the pod requires them. The
// status prevents preemption, which ignores the NUMA nodes of devices and would evict pods without
// a benefit.
func keepOff(why string) *fwk.Status { return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why) }

func (a *attempt) note(node string, v version) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.versions[node] = v
}

// choose records the state of DynamicResources with which the pod fits on a node. nil means the
// state in the pod's own cycle.
func (a *attempt) choose(node string, state fwk.StateData) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if state == nil {
		delete(a.chosen, node)
		return
	}
	a.chosen[node] = state
}

// onNode is an attempt on one node.
type onNode struct {
	*attempt
	claims.OnNode
	plugin *Plugin
	info   fwk.NodeInfo
	// lately is the reason why the last way (claims.Way) failed. lying is the placement of the
	// first way for which the node had no free devices.
	lately string
	lying  Lying
	// cut is a note for the message if MaxWays ended the search; otherwise "".
	cut string
	// loose means that Filter cannot know whether the devices will be aligned. Reserve checks this.
	loose bool
	// apart means that a device can be aligned for one claim but not for another.
	apart bool
}

func (p *Plugin) on(a *attempt, pod *corev1.Pod, info fwk.NodeInfo) *onNode {
	dra, node, list := p.handle.SharedDRAManager(), info.Node(), a.slicesOf(info.Node().Name)
	n := &onNode{attempt: a, plugin: p, info: info}
	n.OnNode = claims.OnNode{
		Pod: pod, Mode: a.mode, Claims: a.claims, Whole: !a.steered, Allocate: n.allocate,
		Stock: claims.Stock{
			Slices: list, Selectors: p.selectors,
			Class: func(name string) *resourceapi.DeviceClass {
				class, _ := dra.DeviceClasses().Get(name)
				return class
			},
			Taken: func(id claims.DeviceID) bool {
				return a.taken.has(structured.MakeDeviceID(id.Driver, id.Pool, id.Name))
			},
		},
		Read: func() *claims.Inventory {
			return claims.Read(node.Name, p.berth.Machine(node.Name), list, p.berth.Sources())
		},
	}
	if classes := dra.DeviceClassResolver(); claims.AsksExtended(pod) {
		n.Extended = claims.Extended(pod, func(name corev1.ResourceName) *resourceapi.DeviceClass {
			if info.GetAllocatable().GetScalarResources()[name] > 0 {
				return nil // a device plugin provides the resource
			}
			return classes.GetDeviceClass(name)
		})
	}
	return n
}

// steer tries the pod's possible placements on the node (ways), one after another, until the pod
// gets its devices. It returns false if the pod gets them with none of the placements.
func (n *onNode) steer(ctx context.Context, state fwk.CycleState, ways Ways) (status *fwk.Status, found bool) {
	if ways.Known != Foreseen {
		return nil, false
	}
	tried := 0
	for way := range ways.All {
		if tried == MaxWays {
			n.cut = fmt.Sprintf("; Berth tried only %d of the possible NUMA placements on this node", MaxWays)
			break
		}
		tried++
		if status, found := n.lie(ctx, state, way); found {
			return status, true
		}
		if way.Near != nil {
			way.Near.Refute(way.Lying)
		}
	}
	return nil, false
}

// lie tries one placement. It returns false if the pod does not get its devices with this
// placement.
func (n *onNode) lie(ctx context.Context, state fwk.CycleState, way Way) (status *fwk.Status, found bool) {
	only, fits := n.reach(way.Lying)
	if !fits {
		return nil, false
	}
	keep := func(own fwk.StateData) {
		var near *placement.Claimed
		if way.Near != nil {
			near = way.Near.Settled(way.Lying)
		}
		n.plugin.berth.Keep(state, n.info.Node().Name, near)
		n.choose(n.info.Node().Name, own)
	}
	if n.Allocated() || n.Whole {
		n.loose = true
		keep(nil)
		return n.plugin.DynamicResources.Filter(ctx, state, n.Pod, n.info), true
	}
	own, status := n.try(ctx, only)
	switch {
	case status.Code() == fwk.Error:
		return status, true
	case !status.IsSuccess():
		if n.lately != "" {
			return nil, false
		}
		n.lately = n.missing(only)
		if n.lying == nil {
			n.lying = way.Lying
		}
		if n.lying == nil {
			n.lying = Lying{}
		}
		return nil, false
	}
	if n.apart && n.taken.state != nil {
		if _, j, chosen := n.Choose(ctx, way.Lying, only); chosen && !j.Keeps(claims.Required) {
			n.lately = j.Why()
			return nil, false
		}
	}
	keep(own)
	return nil, true
}

const all = claims.Everywhere

// reach returns the NUMA nodes on which devices would be aligned (claims.OnNode.Reach), and stores
// the other results of OnNode.Reach in n. It returns false if an allocated claim has devices on
// other NUMA nodes.
func (n *onNode) reach(lying Lying) (only topology.NUMASet, fits bool) {
	r := n.Reach(lying)
	n.lately, n.apart, n.loose = r.Why, r.Apart, n.loose || r.Loose
	if r.Misplaced != nil {
		n.misplace(r.Misplaced.UID)
	}
	return r.Only, r.Misplaced == nil
}

// missing explains that the node has no free devices on these NUMA nodes.
func (n *onNode) missing(only topology.NUMASet) string {
	if only == 0 {
		return "the node pins no container that uses the claims, and no free device without a NUMA node meets the claims"
	}
	text := "no free device on NUMA node " + only.String() + ", where the pod's CPUs would be, meets the claims"
	if elsewhere := n.Devices().NUMANodes() &^ only; elsewhere != 0 {
		text += "; the node has devices on NUMA node " + elsewhere.String()
	}
	return text
}

// misplace records that the pod cannot be placed near the devices that a claim has on this node.
func (n *onNode) misplace(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.misplaced == nil {
		n.misplaced = map[types.UID]bool{}
	}
	n.misplaced[uid] = true
}

// try lets DynamicResources choose among the devices on these NUMA nodes, in a new cycle state.
func (n *onNode) try(ctx context.Context, only topology.NUMASet) (fwk.StateData, *fwk.Status) {
	state := framework.NewCycleState()
	var status *fwk.Status
	n.plugin.view.during(&prepared{slices: n.pools.Complete(n.Shown(only)), taken: n.taken}, func() {
		_, status = n.plugin.DynamicResources.PreFilter(ctx, state, n.Pod, nil)
	})
	if !status.IsSuccess() {
		return nil, status
	}
	if status := n.plugin.DynamicResources.Filter(ctx, state, n.Pod, n.info); !status.IsSuccess() {
		return nil, status
	}
	own, err := state.Read(originalKey)
	return own, fwk.AsStatus(err)
}

// why explains why the node is refused for a pod that requires aligned devices.
func (n *onNode) why(ctx context.Context) string {
	if found := n.whichDevices(ctx); found != "" {
		return asRequired + found + n.cut
	}
	return asRequired + cmp.Or(n.lately, "Berth finds no NUMA nodes for the pod on this node") + n.cut
}

// whichDevices names the devices that the allocator would choose if it saw all devices. It returns
// "" if the position of the devices is not the reason for the refusal.
func (n *onNode) whichDevices(ctx context.Context) string {
	if n.taken.state == nil || n.lying == nil {
		return ""
	}
	if _, j, found := n.Choose(ctx, n.lying, all); found && !j.Keeps(n.mode) {
		return j.Why()
	}
	return ""
}

// allocate implements claims.OnNode.Allocate.
func (n *onNode) allocate(ctx context.Context, shown []*resourceapi.ResourceSlice, open []*resourceapi.ResourceClaim) (results []resourceapi.AllocationResult, why string) {
	dra := n.plugin.handle.SharedDRAManager()
	allocator, err := structured.NewAllocator(ctx, dynamicresources.AllocatorFeatures(n.plugin.features), *n.taken.state, dra.DeviceClasses(), n.pools.Complete(shown), n.plugin.selectors)
	if err != nil {
		return nil, err.Error()
	}
	if results, err = allocator.Allocate(ctx, n.info.Node(), open); err != nil {
		return nil, err.Error()
	}
	if len(results) != len(open) {
		return nil, "the devices do not suffice"
	}
	return results, ""
}

// asRequired is the start of messages about nodes on which required devices are not aligned.
const asRequired = `"berth.dev/claims: required": `

// nearer is the additional score of a node with devices near the CPUs. It equals the largest score
// of DynamicResources for one claim: 8 for each of 32 requests.
const nearer = 8 * 32

// PreScore implements fwk.PreScorePlugin. It skips Score for a pod that can get no devices, because
// Score would return 0 for every node. DynamicResources itself has no PreScore.
func (p *Plugin) PreScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if claims.MayClaim(pod) {
		return nil
	}
	return fwk.NewStatus(fwk.Skip)
}

// Score implements fwk.ScorePlugin.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	a := attemptOf(state)
	if a == nil {
		return p.DynamicResources.Score(ctx, state, pod, info)
	}
	a.mu.Lock()
	c, steered := a.chosen[info.Node().Name]
	a.mu.Unlock()
	if !steered {
		return p.DynamicResources.Score(ctx, state, pod, info)
	}
	own := framework.NewCycleState()
	own.Write(originalKey, c)
	score, status := p.DynamicResources.Score(ctx, own, pod, info)
	return score + nearer, status
}

// Reserve implements fwk.ReservePlugin. Berth's own plugin has already reserved CPUs and memory for
// the pod.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	a := attemptOf(state)
	if a == nil {
		return p.reserve(ctx, state, pod, node)
	}
	if c, steered := a.chosen[node]; steered {
		state.Write(originalKey, c)
	}
	if status := p.reserve(ctx, state, pod, node); !status.IsSuccess() {
		return status
	}
	if state.IsPodGroupSchedulingCycle() {
		return nil // a trial; Reserve is called again to commit it
	}
	tracker := p.handle.SharedDRAManager().ResourceClaims()
	var all []claims.Claim
	lying, decided := p.berth.Decided(pod, node)
	for _, c := range a.claims {
		of, allocation := c.Judged(pod, lying), c.Status.Allocation
		if allocation == nil {
			if allocation = tracker.GetPendingAllocation(c.UID); allocation == nil {
				continue
			}
			a.pending = append(a.pending, c)
		}
		of.Results = allocation.Devices.Results
		all = append(all, of)
	}
	all = append(all, judgedExtended(state, pod, lying)...)
	return p.check(state, a, found{pod, node, all, decided})
}

// reserve calls Reserve of DynamicResources, and stores the claim for extended resources in the
// cycle's state.
func (p *Plugin) reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if !claims.AsksExtended(pod) {
		return p.DynamicResources.Reserve(ctx, state, pod, node)
	}
	found, status := p.view.reserving(func() *fwk.Status { return p.DynamicResources.Reserve(ctx, state, pod, node) })
	state.Write(extendedKey, found)
	return status
}

// extendedOf returns the claim that Reserve has allocated for extended resources, or nil.
func extendedOf(state fwk.CycleState) *resourceapi.ResourceClaim {
	data, _ := state.Read(extendedKey)
	if found, ok := data.(*extended); ok {
		return found.claim
	}
	return nil
}

// judgedExtended returns the claim for extended resources as claims.Judge expects it. The result is
// empty if Reserve allocated no such claim.
func judgedExtended(state fwk.CycleState, pod *corev1.Pod, lying Lying) []claims.Claim {
	special := extendedOf(state)
	if special == nil {
		return nil
	}
	return []claims.Claim{{Name: claims.ForExtended, Results: special.Status.Allocation.Devices.Results, Users: claims.UsersOfExtended(pod, lying)}}
}

// found has the devices of a pod on its reserved node. decided means that Berth has decided on the
// pod's NUMA nodes.
type found struct {
	pod     *corev1.Pod
	node    string
	claims  []claims.Claim
	decided bool
}

// check returns Unschedulable, and excludes the node for the pod, if the devices are not where the
// pod requires them.
func (p *Plugin) check(state fwk.CycleState, a *attempt, f found) *fwk.Status {
	j := claims.Judge(claims.Read(f.node, p.berth.Machine(f.node), a.slicesOf(f.node), p.berth.Sources()), f.claims)
	if a.alignment, a.judged = j.Alignment(), true; j.Keeps(a.mode) {
		return nil
	}
	why := asRequired + j.Why()
	if !f.decided {
		why += "; Berth has no decision for the pod on this node"
	}
	a.refused = true
	p.excluded.add(f.pod.UID, f.node, a.versions[f.node], why)
	p.berth.Refused(state)
	return fwk.NewStatus(fwk.Unschedulable, why)
}

// PreBind implements fwk.PreBindPlugin. It judges the devices again, because they may have changed
// since Reserve.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if p.waits(state, pod) {
		p.berth.Waits(pod, node)
	}
	a := attemptOf(state)
	if a == nil {
		return p.DynamicResources.PreBind(ctx, state, pod, node)
	}
	a.written = true
	if status := p.DynamicResources.PreBind(ctx, state, pod, node); !status.IsSuccess() {
		return status
	}
	status := p.checkWritten(ctx, state, pod, node)
	if a.mode != claims.Required {
		return nil // the devices are judged only for the metric
	}
	return status
}

// PostBind implements fwk.PostBindPlugin.
func (p *Plugin) PostBind(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) {
	if a := attemptOf(state); a != nil && a.judged {
		p.berth.Bound(a.mode, a.alignment)
	}
}

// waits reports whether PreBind will wait until devices of the pod are ready.
func (p *Plugin) waits(state fwk.CycleState, pod *corev1.Pod) bool {
	if special := extendedOf(state); special != nil && awaitsConditions(special.Status.Allocation) {
		return true
	}
	if len(pod.Spec.ResourceClaims) == 0 {
		return false
	}
	list, err := p.claimsOf(pod)
	if err != nil {
		return false // DynamicResources reports the error
	}
	for _, c := range list {
		allocation := c.Status.Allocation
		if allocation == nil {
			allocation = p.handle.SharedDRAManager().ResourceClaims().GetPendingAllocation(c.UID)
		}
		if awaitsConditions(allocation) {
			return true
		}
	}
	return false
}

// awaitsConditions reports whether a device of the allocation has binding conditions. Such a device
// must become ready before its pod is bound.
func awaitsConditions(a *resourceapi.AllocationResult) bool {
	return a != nil && slices.ContainsFunc(a.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return len(r.BindingConditions) > 0 })
}

// Check compares a pod's claims, after PreBind, with the decision that Berth is about to write. The
// error text is for users. It returns nil for a pod that does not require aligned devices.
func (p *Plugin) Check(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) error {
	if a := attemptOf(state); a == nil || a.mode != claims.Required {
		return nil
	}
	if status := p.checkWritten(ctx, state, pod, node); !status.IsSuccess() {
		return errors.New(status.Message())
	}
	return nil
}

// checkWritten judges the devices of the current claims, and the devices for extended resources. A
// cache may still lack the claim for extended resources, so checkWritten uses the allocation of
// Reserve.
func (p *Plugin) checkWritten(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	a := attemptOf(state)
	lying, decided := p.berth.Decided(pod, node)
	now, err := p.claimsOf(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	var all []claims.Claim
	for _, c := range now {
		allocation, err := p.written(ctx, c.ResourceClaim)
		if err != nil {
			return fwk.AsStatus(err)
		}
		of := c.Judged(pod, lying)
		of.Results = allocation.Devices.Results
		all = append(all, of)
	}
	all = append(all, judgedExtended(state, pod, lying)...)
	return p.check(state, a, found{pod, node, all, decided})
}

// written returns the allocation of a claim. It asks the API server if the cache does not have the
// allocation that PreBind has just written.
func (p *Plugin) written(ctx context.Context, c *resourceapi.ResourceClaim) (*resourceapi.AllocationResult, error) {
	if c.Status.Allocation != nil {
		return c.Status.Allocation, nil
	}
	now, err := p.handle.ClientSet().ResourceV1().ResourceClaims(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, err
	case now.UID != c.UID || now.Status.Allocation == nil:
		return nil, fmt.Errorf("claim %s/%s was deallocated or created again while the pod was being bound: the pod is tried again", c.Namespace, c.Name)
	}
	return now.Status.Allocation, nil
}

// driversOffer reports whether a DeviceClass provides an extended resource that the pod requests.
func (p *Plugin) driversOffer(pod *corev1.Pod) bool {
	if !claims.AsksExtended(pod) {
		return false
	}
	classes := p.handle.SharedDRAManager().DeviceClassResolver()
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for name := range claims.ExtendedIn(&list[i]) {
				if classes.GetDeviceClass(name) != nil {
					return true
				}
			}
		}
	}
	return false
}

// misplacedClaims returns the allocated claims near whose devices the pod cannot be placed.
func (a *attempt) misplacedClaims() []claims.PodClaim {
	a.mu.Lock()
	uids := maps.Clone(a.misplaced)
	a.mu.Unlock()
	var out []claims.PodClaim
	for _, c := range a.claims {
		if uids[c.UID] {
			out = append(out, c)
		}
	}
	return out
}
