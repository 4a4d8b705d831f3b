package gang

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/placement"
)

// Profile has the parts of the pods' scheduling profile that a trial needs.
type Profile struct {
	Handle fwk.Handle
	// Candidate returns a pod's request for the ledgers, or nil if nothing is pinned for the pod.
	// The error is for users.
	Candidate func(pod *corev1.Pod) (*ledger.Candidate, error)
	// BestFirst returns the indexes of the infos whose nodes admit the pod of the cycle, in Berth's
	// own order, the best first. It returns nil if other plugins may prefer other nodes.
	BestFirst func(state fwk.CycleState, infos []fwk.NodeInfo) []int
	// Account returns the ledger of a node.
	Account func(node string) *ledger.Node
	// Check returns an error if a decision cannot be stored with the pod's Binding.
	Check func(pod *corev1.Pod, d *placement.Decision) error
	// Devices begins a search for devices for the members' claims. It returns nil if the profile
	// has no plugin that chooses devices.
	Devices func(ctx context.Context) Devices
}

// Lies describes a member's place on a node. Again is a function that moves the member to another
// place on the node.
type (
	Lies  = plan.Lies
	Again = plan.Again
)

// Devices finds devices of DRA drivers for the members' claims.
type Devices interface {
	// Give assigns devices to the pod at its place on the node, within this search only. It returns
	// false if it finds too few devices. Give may call again() to move the pod to another place on
	// the node.
	Give(pod *corev1.Pod, on fwk.NodeInfo, would Lies, again Again) bool
	// Take releases the devices that Give has assigned to the pod.
	Take(uid types.UID)
}

// Runner has a method of the framework that fwk.Handle lacks.
type Runner interface {
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

const trialKey fwk.StateKey = "Berth/gang-trial"

// InTrial reports whether a cycle's state belongs to a trial. Plugins must have no side effects in
// a trial.
func InTrial(state fwk.CycleState) bool {
	_, err := state.Read(trialKey)
	return err == nil
}

// MateInTrial reports whether a cycle's state belongs to a trial that plans this pod. Plugins must
// then not count the pod on its node, because the plan counts it on forks of the ledgers.
func MateInTrial(state fwk.CycleState, uid types.UID) bool {
	data, _ := state.Read(trialKey)
	t, ok := data.(*trial)
	return ok && t.mates.Has(uid)
}

// trial tries members on copies of the scheduler's nodes. It implements plan.Field and
// gangfit.Reporting.
type trial struct {
	ctx     context.Context //nolint:containedctx // a trial lives as long as the call that makes it
	profile Profile
	job     *job
	budget  *plan.Budget
	mates   sets.Set[types.UID]
	infos   []fwk.NodeInfo
	// over has copies of the nodes on which the trial has added or removed pods, by the index in
	// infos.
	over  map[int]fwk.NodeInfo
	kinds []*kind
	// bodies has the members in the form in which the framework adds pods to nodes.
	bodies []fwk.PodInfo
	// cleared has the nodes from which the trial may remove pods, or is nil. If it is set, the
	// Filter plugins run again only on these nodes and for coupled kinds. For other kinds, the
	// earlier answers of all other nodes still apply (kind.refused).
	cleared map[int]bool
	// wide means that Nodes must ask all nodes. left means that a call of Nodes has asked only some
	// nodes.
	wide, left bool
	// loners has the placed members with required anti-affinity.
	loners loners
	// devices is nil if the profile has no plugin that chooses devices.
	devices Devices
	// coupled is the number of coupled kinds: kinds for which a placed member can change which
	// nodes are feasible (plan.Field.Coupled).
	coupled int
	// dirty means that kind.shut of some kind has refusals.
	dirty bool
}

// Clone implements fwk.StateData.
func (t *trial) Clone() fwk.StateData { return t }

var (
	_ plan.Field        = (*trial)(nil)
	_ gangfit.Reporting = (*trial)(nil)
)

// kind is a set of members to which every plugin gives the same answers.
type kind struct {
	// pod represents all pods of the kind.
	pod   *corev1.Pod
	state fwk.CycleState
	// among has the indices in trial.infos of the nodes that PreFilter plugins allow and that match
	// the pod's node selector and node affinity, in ascending order; nil means all nodes.
	among   []int
	coupled bool
	// size is the number of members of the kind.
	size int
	// shut has the refusals that depend on the places of other members.
	shut shut
	// refused has the nodes' refusals for which no planned member is the reason, by the index in
	// trial.infos.
	refused map[int]*fwk.Status
}

func (j *job) try(ctx context.Context, profile Profile) *result {
	j.gang.Budget = plan.NewBudget(ctx)
	t := &trial{ctx: ctx, profile: profile, job: j, budget: j.gang.Budget, over: map[int]fwk.NodeInfo{}}
	if status := t.prepare(); status != nil {
		return &result{wrong: status}
	}
	return &result{Verdict: j.gang.Ask(t), trial: t}
}

// Countable returns the requested amounts without the extended resources that DRA drivers may
// provide (KEP-5004). Only the plugin DynamicResources knows how much of such a resource is free.
// If on is not nil, resources in that node's allocatable stay in the list.
func Countable(handle fwk.Handle, asked amounts.List, on *amounts.Node) amounts.List {
	out := asked
	for name := range asked {
		if on != nil {
			if has, _ := on.Allocatable(name); has > 0 {
				continue
			}
		}
		if !amounts.IsExtended(name) {
			continue
		}
		drivers := handle.SharedDRAManager() // nil without the feature gate DynamicResourceAllocation
		if drivers != nil && drivers.DeviceClassResolver().GetDeviceClass(corev1.ResourceName(name)) != nil {
			out = maps.Clone(out)
			delete(out, name)
		}
	}
	return out
}

// RoomIn returns the free amounts of a node, as the framework counts them.
func RoomIn(info fwk.NodeInfo) *amounts.Node {
	all := countOf(info.GetAllocatable())
	all[amounts.Pods] = int64(info.GetAllocatable().GetAllowedPodNumber())
	room := amounts.NewNode(all)
	room.Hold(countOf(info.GetRequested()))
	room.AddTimes(nil, len(info.GetPods()))
	return room
}

func countOf(r fwk.Resource) amounts.List {
	out := amounts.List{amounts.CPU: r.GetMilliCPU(), amounts.Memory: r.GetMemory(), amounts.EphemeralStorage: r.GetEphemeralStorage()}
	for name, amount := range r.GetScalarResources() {
		out[string(name)] = amount
	}
	return out
}

// prepare fills in job.gang, the question for package gangfit, and runs the PreFilter plugins for
// each kind of members.
func (t *trial) prepare() *fwk.Status {
	infos, err := t.profile.Handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err)
	}
	t.infos, t.mates = infos, sets.New[types.UID]()
	if t.profile.Devices != nil {
		t.devices = t.profile.Devices(t.ctx)
	}
	at := map[string]int{}
	if len(t.job.Seated) > 0 {
		for i := range t.infos {
			at[t.name(i)] = i
		}
	}
	t.job.Candidate, t.job.Looked = t.profile.Candidate, t.looked
	t.job.Node = func(name string) (int, *ledger.Node) {
		if node, ok := at[name]; ok {
			return node, t.Account(node)
		}
		return plan.Elsewhere, nil
	}
	if err := t.job.Ask(&t.job.gang); err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	t.claim()
	if t.budget.Over() {
		return nil
	}
	for _, pod := range t.job.Pods {
		body, err := framework.NewPodInfo(pod)
		if err != nil {
			return fwk.AsStatus(err)
		}
		t.mates.Insert(pod.UID)
		t.bodies = append(t.bodies, body)
		// Members lose their nominations, because the plan may use the nodes that were kept for
		// them.
		t.profile.Handle.DeleteNominatedPodIfExists(pod)
	}
	for _, k := range t.job.gang.Kinds {
		pod := t.job.Pods[k.First]
		t.kinds = append(t.kinds, &kind{pod: pod, coupled: isCoupled(pod), size: k.Size})
		t.coupled += b2i(isCoupled(pod))
	}
	return t.begin()
}

// begin runs the PreFilter plugins for each kind, until the budget is used up.
func (t *trial) begin() *fwk.Status {
	run, ok := t.profile.Handle.(Runner)
	if !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the plan of a gang needs a framework with RunPreFilterPlugins, and this scheduler's framework does not have it")
	}
	for _, k := range t.kinds {
		if !t.budget.Spend(kindLooks + len(t.infos)*gangs.CountTerms(k.pod)) {
			return nil
		}
		k.state = framework.NewCycleState()
		k.state.Write(trialKey, t)
		result, status, _ := run.RunPreFilterPlugins(t.ctx, k.state, k.pod)
		if !status.IsSuccess() {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "pod "+k.pod.Name+": "+status.Message())
		}
		k.among = t.among(k.pod, result)
	}
	return nil
}

// matchLooks is the number of nodes that are compared with a node selector in the time of one look.
const matchLooks = 16

// among computes kind.among from the result of PreFilter. If Kueue has assigned a host to each pod,
// each pod is a kind of its own. Without among, every kind would ask all nodes, and the plan would
// use up its budget. A kubelet also compares its node with the pod's node selector, so among does
// so even if the profile lacks the plugin NodeAffinity.
func (t *trial) among(pod *corev1.Pod, allowed *fwk.PreFilterResult) []int {
	a := pod.Spec.Affinity
	requires := a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
	if allowed.AllNodes() && len(pod.Spec.NodeSelector) == 0 && !requires {
		return nil
	}
	t.budget.Spend(len(t.infos) / matchLooks)
	affinity, out := nodeaffinity.GetRequiredNodeAffinity(pod), []int{}
	for i := range t.infos {
		if !allowed.AllNodes() && !allowed.NodeNames.Has(t.name(i)) {
			continue
		}
		if match, _ := affinity.Match(t.infos[i].Node()); match { // as the plugin NodeAffinity does
			out = append(out, i)
		}
	}
	return out
}

// refusal returns the node's refusal of the kind for which no planned member is the reason, or nil.
func (t *trial) refusal(k *kind, node int) *fwk.Status {
	if k.among != nil {
		if _, found := slices.BinarySearch(k.among, node); !found {
			return notAmong
		}
	}
	return k.refused[node]
}

// notAmong is the refusal of the nodes that are not in kind.among.
var notAmong = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "does not match the pod's node selector, node affinity or volumes")

// kindLooks is the cost of PreFilter for a kind, in looks (plan.Looks). Each term about other pods
// costs one more look per node, because PreFilter compares the term with the pods of all nodes.
const kindLooks = 32

// Nodes implements plan.Field. Nodes returns the nodes that every plugin accepts for members of the
// kind, ordered by the framework's scores. If Nodes omits nodes, it sets t.left. For a coupled
// kind, Nodes includes nodes that may accept members later.
func (t *trial) Nodes(which int) []int {
	k := t.kinds[which]
	if !t.wide && t.cleared == nil && !k.coupled && !t.job.gang.Wishes() {
		best := t.best(k)
		if best == nil {
			best = t.some(k, which)
		}
		if best != nil {
			t.left = true
			return t.scored(k, best)
		}
	}
	all := make([]int, t.openTo(k))
	for i := range all {
		all[i] = k.node(i)
	}
	return t.ranked(k, t.fitting(k, all))
}

// openTo returns the number of nodes in kind.among, or of all nodes.
func (t *trial) openTo(k *kind) int {
	if k.among != nil {
		return len(k.among)
	}
	return len(t.infos)
}

// node returns the i-th node of kind.among, or of all nodes.
func (k *kind) node(i int) int {
	if k.among != nil {
		return k.among[i]
	}
	return i
}

// Widen implements plan.Field.
func (t *trial) Widen() bool {
	t.wide = true
	return t.left
}

// best returns the first nodes in Berth's order that every plugin accepts for members of the kind.
// It does not ask the other nodes, because the framework scores only the first few. It returns nil
// if it finds too few nodes, or if Berth has no order. In a large cluster with many kinds, it
// examines only the first nodes.
func (t *trial) best(k *kind) []int {
	few, infos := t.few(k), t.infos
	if k.among != nil {
		infos = t.infosOf(k.among)
	}
	all := len(infos)
	infos = infos[:min(all, max(2*few, plan.Looks/(2*orderLooks*len(t.kinds))))]
	if all <= few || !t.profile.Handle.RunPreScorePlugins(t.ctx, k.state, k.pod, infos).IsSuccess() {
		return nil
	}
	order := t.profile.BestFirst(k.state, infos)
	if order != nil {
		t.budget.Spend(orderLooks * len(infos))
	}
	for i := range order {
		order[i] = k.node(order[i])
	}
	fit := make([]int, 0, 2*few)
	for asked := range slices.Chunk(order, few) {
		fit = append(fit, t.fitting(k, asked)...)
		if len(fit) >= few {
			return fit[:few]
		}
	}
	return nil
}

// orderLooks is the cost of putting one node in Berth's order, in looks.
const orderLooks = 3

// someLooks is the cost of asking and scoring one node, in looks.
const someLooks = 16

// some returns a part of the nodes that every plugin accepts for members of the kind: as many as
// kube-scheduler looks for (numFeasibleNodesToFind), or fewer if there are many kinds. If it finds
// fewer, it returns nil. The search for each kind begins at a different node.
func (t *trial) some(k *kind, which int) []int {
	all := t.openTo(k)
	usual := max(100, all*max(5, 50-all/125)/100)
	few := max(t.few(k), min(usual, plan.Looks/(someLooks*len(t.kinds))))
	if all <= few {
		return nil
	}
	var fit []int
	for asked := 0; asked < all && !t.budget.Over(); {
		among := make([]int, 0, few)
		for ; len(among) < few && asked < all; asked++ {
			among = append(among, k.node((which*few+asked)%all))
		}
		if fit = append(fit, t.fitting(k, among)...); len(fit) >= few {
			return fit[:few]
		}
	}
	return nil
}

// fitting calls ask for the nodes in the list among. It returns the nodes that every plugin accepts
// for members of the kind and, for a coupled kind, the nodes that may accept members later.
func (t *trial) fitting(k *kind, among []int) (fit []int) {
	if !t.budget.Spend(len(among)) {
		return nil
	}
	said := make([]*fwk.Status, len(among))
	t.profile.Handle.Parallelizer().Until(t.ctx, len(among), func(i int) { said[i] = t.ask(k, among[i]) }, "GangFilter")
	if k.refused == nil {
		k.refused = map[int]*fwk.Status{}
	}
	for i, s := range said {
		switch {
		case s.IsSuccess() || k.coupled && passes(s):
			fit = append(fit, among[i])
		case t.cleared == nil:
			k.refused[among[i]] = s
		}
	}
	return fit
}

// ask returns the answer of the Filter plugins for members of the kind on a node. It does not call
// the plugins if the answer is known.
func (t *trial) ask(k *kind, node int) *fwk.Status {
	if t.cleared != nil && !t.cleared[node] && !k.coupled {
		return k.refused[node]
	}
	return t.filter(k, t.info(node))
}

// scoredNodes is the minimum number of nodes that the framework scores for a kind; for a large
// kind, it scores two per member (few). The framework scores the first nodes in Berth's order, and
// the other nodes keep that order.
const scoredNodes = 64

func (t *trial) few(k *kind) int { return max(scoredNodes, 2*k.size) }

// ranked orders nodes by the framework's scores, the best first. ranked scores only the first nodes
// in Berth's order, because scores for all nodes of a large cluster cost more than the rest of the
// attempt. In a trial that removes pods, ranked scores all nodes, because Berth's order ignores the
// removals.
func (t *trial) ranked(k *kind, fit []int) []int {
	infos := t.infosOf(fit)
	if len(fit) < 2 || !t.profile.Handle.RunPreScorePlugins(t.ctx, k.state, k.pod, infos).IsSuccess() {
		return fit
	}
	few := t.few(k)
	if t.cleared != nil || len(fit) <= few {
		return t.scored(k, fit)
	}
	t.budget.Spend(len(infos))
	order := t.profile.BestFirst(k.state, infos)
	if len(order) < len(fit) { // a node no longer accepts the pod, or Berth has no order
		return t.scored(k, fit)
	}
	best := make([]int, len(fit))
	for i, place := range order {
		best[i] = fit[place]
	}
	return append(t.scored(k, best[:few]), best[few:]...)
}

// scored orders nodes by the framework's scores, the best first. If there are no scores, scored
// keeps the order of fit.
func (t *trial) scored(k *kind, fit []int) []int {
	if !t.budget.Spend(len(fit)) {
		return fit
	}
	scores, status := t.profile.Handle.RunScorePlugins(t.ctx, k.state, k.pod, t.infosOf(fit))
	if !status.IsSuccess() {
		return fit
	}
	order := make([]int, len(fit))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b].TotalScore, scores[a].TotalScore) })
	for i, place := range order {
		order[i] = fit[place]
	}
	return order
}

func (t *trial) infosOf(list []int) []fwk.NodeInfo {
	infos := make([]fwk.NodeInfo, len(list))
	for i, node := range list {
		infos[i] = t.info(node)
	}
	return infos
}

func (t *trial) info(node int) fwk.NodeInfo {
	if copied := t.over[node]; copied != nil {
		return copied
	}
	return t.infos[node]
}

// filter runs the Filter plugins for a node. If pods of the same or a higher priority are nominated
// to the node, filter runs the plugins with and without these pods, as the framework does in its
// own cycles. filter ignores the nominations of members of the gang.
func (t *trial) filter(k *kind, info fwk.NodeInfo) *fwk.Status {
	handle := t.profile.Handle
	state, with := k.state, info
	for _, other := range handle.NominatedPodsForNode(info.Node().Name) {
		if t.mates.Has(other.GetPod().UID) || corev1helpers.PodPriority(other.GetPod()) < corev1helpers.PodPriority(k.pod) {
			continue
		}
		if with == info {
			state, with = k.state.Clone(), info.Snapshot()
		}
		with.AddPodInfo(other)
		if s := handle.RunPreFilterExtensionAddPod(t.ctx, state, k.pod, other, with); !s.IsSuccess() {
			return s
		}
	}
	if with != info {
		if s := handle.RunFilterPlugins(t.ctx, state, k.pod, with); !s.IsSuccess() {
			return s
		}
	}
	return handle.RunFilterPlugins(t.ctx, k.state, k.pod, info)
}

// Coupled implements plan.Field.
func (t *trial) Coupled(kind int) bool { return t.kinds[kind].coupled }

// Node implements plan.Field. The result has no amounts, because NodeResourcesFit checks them on
// the framework's nodes.
func (t *trial) Node(node int) suppose.Node { return suppose.On(t.Account(node), nil) }

// Account returns the ledger of a node.
func (t *trial) Account(node int) *ledger.Node { return t.profile.Account(t.name(node)) }

func (t *trial) name(node int) string { return t.infos[node].Node().Name }

// Admits implements plan.Field. If the trial has not changed the node and the kind is not coupled,
// Admits does not run the Filter plugins again, because Nodes has run them.
func (t *trial) Admits(member, node int) bool {
	k, copied := t.kinds[t.job.gang.Members[member].Kind], t.over[node]
	minded := t.loners.mind(t.job.Pods[member], t.infos[node].Node())
	if copied == nil && !k.coupled && !minded {
		return true
	}
	said := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "has a member of the gang whose anti-affinity excludes the pod")
	if !minded {
		said = t.filter(k, t.info(node))
	}
	if k.coupled && !said.IsSuccess() {
		k.shut.close(t, k, node, said)
		t.dirty = true
	}
	return said.IsSuccess()
}

// Closed implements plan.Field.
func (t *trial) Closed(kind, node int) bool { return t.kinds[kind].shut.has(node) }

// Reopen implements plan.Field.
func (t *trial) Reopen(kind int) bool { return t.kinds[kind].shut.reopen() }

// changed forgets the refusals of coupled kinds. Call it when a pod was removed from a node.
func (t *trial) changed() {
	if t.dirty {
		for _, k := range t.kinds {
			k.shut = shut{}
		}
		t.dirty = false
	}
}

// copied returns the trial's own copy of a node. If there is none, copied makes it.
func (t *trial) copied(node int) fwk.NodeInfo {
	if t.over[node] == nil {
		t.over[node] = t.infos[node].Snapshot()
	}
	return t.over[node]
}

// putLooks is the cost of adding a member to a copy of a node, in looks. coupledLooks is the cost
// of calling the PreFilter extensions for one coupled kind, in looks.
const (
	putLooks     = 2
	coupledLooks = 45
)

// Suits implements plan.Field. Suits ignores devices that evictions would release.
func (t *trial) Suits(member, node int, would Lies, again Again) bool {
	return t.devices == nil || t.devices.Give(t.job.Pods[member], t.infos[node], would, again)
}

// Put implements plan.Field.
func (t *trial) Put(member, node int) {
	body, on := t.bodies[member], t.copied(node)
	on.AddPodInfo(body)
	t.loners.add(body, t.job.gang.Members[member].Kind, t.infos[node].Node(), 1)
	t.budget.Spend(putLooks + coupledLooks*t.coupled)
	for _, k := range t.kinds {
		if k.coupled {
			t.profile.Handle.RunPreFilterExtensionAddPod(t.ctx, k.state, k.pod, body, on)
		}
	}
}

// Take implements plan.Field.
func (t *trial) Take(member, node int) {
	if t.devices != nil {
		t.devices.Take(t.job.Pods[member].UID)
	}
	body, on := t.bodies[member], t.over[node]
	if err := on.RemovePod(klog.FromContext(t.ctx), body.GetPod()); err != nil {
		return // the member was not on the node
	}
	t.loners.add(body, t.job.gang.Members[member].Kind, t.infos[node].Node(), -1)
	t.changed()
	for _, k := range t.kinds {
		if k.coupled {
			t.profile.Handle.RunPreFilterExtensionRemovePod(t.ctx, k.state, k.pod, body, on)
		}
	}
}

// Waiting implements gangfit.Reporting.
func (t *trial) Waiting(which int) (nodes []int) {
	for node, said := range t.kinds[which].refused {
		if said.Code() == fwk.Pending {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Hoped implements gangfit.Reporting.
func (t *trial) Hoped(int) suppose.Node { return suppose.Node{} }

// Hopes implements gangfit.Reporting.
func (t *trial) Hopes(member, node int) bool {
	info := t.info(node)
	room := RoomIn(info)
	return !t.loners.mind(t.job.Pods[member], info.Node()) && room.Free(amounts.Pods) > 0 && room.Has(Countable(t.profile.Handle, t.job.gang.Members[member].Asks, room))
}
