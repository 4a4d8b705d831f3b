package gang

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/lead"
	"github.com/berth-dev/berth/internal/wire"
)

// Options are what Groups live on.
type Options struct {
	Clock  clock.WithDelayedExecution
	Logger klog.Logger
	// Timeout is how long members wait for each other where their group names no time.
	Timeout time.Duration
	// Client deletes members of gangs that failed, and writes the conditions of pods.
	Client kubernetes.Interface
	Events events.EventRecorder
	// Objects are the groups that have objects; nil where there are none.
	Objects Objects
	// Activate sends pods to be tried at once. It is called without a lock.
	Activate func(pods map[string]*corev1.Pod)
	// Waiting returns a pod that waits in Permit; nil where it does not.
	Waiting func(uid types.UID) fwk.WaitingPod
	// Budgets lists the PodDisruptionBudgets.
	Budgets func() ([]*policyv1.PodDisruptionBudget, error)
	// Ours says whether pods that name that scheduler are this one's.
	Ours func(schedulerName string) bool
	// Forgo stops keeping a node for a pod, and tries the pods that it was kept from. It is called
	// without a lock. nil where nobody keeps any.
	Forgo func(pod *corev1.Pod, node string)
	// Room is asked for groups without pods; nil where nobody knows.
	Room Room
	// Lead says whether anything may be written or deleted. nil is a gate that Follow opens.
	Lead *lead.Gate
}

// Objects are the API objects of groups.
type Objects interface {
	// Want starts to watch the objects of a source.
	Want(source wire.GangSource)
	// Read asks the API server for an object as it is now. The error is for people.
	Read(ctx context.Context, key wire.GangKey) (wire.Gang, error)
	// SchedulerOf returns the scheduler that a Job of batch.volcano.sh names.
	SchedulerOf(ctx context.Context, namespace, job string) (string, error)
	// QueueState returns the state of a queue of Volcano's; "" where there is none of the name.
	QueueState(ctx context.Context, queue string) (string, error)
	// Write writes how things stand into the object's status, unless it says so. It returns the
	// version of the object that does.
	Write(ctx context.Context, key wire.GangKey, s standing) (version string, err error)
}

// Groups are all gangs of a scheduler. They are safe for concurrent use.
type Groups struct {
	Options
	// any says that there is, or was, a group at all.
	any atomic.Bool

	mu     sync.Mutex
	groups map[wire.GangKey]*group
	of     map[types.UID]*group
	// following are plans whose members have not all been sent for.
	following []*planned
	// follows: members are sent for one after another (Follow).
	follows bool
	// stirs counts changes of the cluster that could help a group which does not fit.
	stirs uint64
	// waves is closed at the next change of the cluster; nil while nobody waits for a wave.
	waves chan struct{}
	// vacant are objects of groups without pods that wait for admission.
	vacant          map[wire.GangKey]wire.Gang
	lookingAtVacant bool
	// evicted are pods that were evicted for groups, and when.
	evicted map[types.UID]time.Time
	// lone are pods that come after their gangs and wait for a change.
	lone map[types.UID]*group
	// synced: all pods that were there at the start have been seen. Before, a gang that is whole
	// could be taken for one that is not.
	synced bool
	// ledFrom is when this process began to lead with all pods seen.
	ledFrom time.Time
}

// New returns Groups without any.
func New(o Options) *Groups {
	if o.Lead == nil {
		o.Lead = new(lead.Gate)
	}
	if o.Forgo == nil {
		o.Forgo = func(*corev1.Pod, string) {}
	}
	gs := &Groups{Options: o, groups: map[wire.GangKey]*group{}, of: map[types.UID]*group{}, vacant: map[wire.GangKey]wire.Gang{}, lone: map[types.UID]*group{}}
	gs.Lead.Then(gs.begin)
	return gs
}

// join returns the pod's group with the pod in it, and makes what is missing; nil for pods of no
// gang. Pods of other schedulers make no group, but are noted where they claim to be of one. Only
// what the watch has shown is a member: everybody else may ask for a pod that is gone. The caller
// holds the lock.
func (gs *Groups) join(pod *corev1.Pod) *group {
	if g := gs.of[pod.UID]; g != nil {
		return g
	}
	m := gs.memberOf(pod)
	if m == nil || !gs.Ours(pod.Spec.SchedulerName) && gs.groups[m.says.Gang] == nil {
		return nil
	}
	if m.says.Gang.IsZero() { // a name that nothing can have: the pod is alone with its error
		m.says.Gang = wire.GangKey{Source: wire.GangOfPods, Namespace: pod.Namespace, Name: "?" + string(pod.UID)}
	}
	g := gs.named(m.says.Gang)
	g.members[pod.UID] = m
	gs.of[pod.UID] = g
	g.sum(m)
	g.changes++
	g.read()
	gs.on(g, gangs.News{})
	return g
}

// memberOf returns the member that the pod is; nil where it is of no gang. The caller holds the
// lock.
func (gs *Groups) memberOf(pod *corev1.Pod) *member {
	m, ok := gangs.PartOf(pod, !gs.synced)
	if !ok {
		return nil
	}
	return &member{pod: pod, claims: m.Claims, says: m.Says, wrong: m.Wrong}
}

// belongs says whether the pod may be a member. It is cheap.
func belongs(pod *corev1.Pod) bool {
	_, said := pod.Annotations[wire.BoundForAnnotation]
	return said || wire.InGang(pod)
}

// named returns the group of that name, and makes it where there is none. The caller holds the
// lock.
func (gs *Groups) named(key wire.GangKey) *group {
	if g := gs.groups[key]; g != nil {
		return g
	}
	g := &group{key: key, members: map[types.UID]*member{}}
	g.wrong = g.unknown()
	gs.groups[key] = g
	delete(gs.vacant, key)
	gs.any.Store(true)
	if gs.Objects != nil && key.Source.HasObject() {
		gs.Objects.Want(key.Source)
	}
	return g
}

// unknown is what is wrong with a group whose object has not been seen.
func (g *group) unknown() error {
	if !g.key.Source.HasObject() {
		return nil
	}
	return fmt.Errorf("%s is not there, as far as this scheduler knows", g.key)
}

// PodSeen takes a pod in, as the scheduler's watch shows it.
func (gs *Groups) PodSeen(pod *corev1.Pod) {
	if !gs.any.Load() && !belongs(pod) {
		return
	}
	if wire.Ended(pod) {
		gs.Stir() // what it held is free, or will be
	}
	gs.mu.Lock()
	was := gs.leaveOther(pod)
	known := gs.of[pod.UID] != nil
	g := gs.join(pod)
	if g != nil {
		gs.take(g, pod)
	}
	// The queue may have asked before the groups knew: a member that comes after its gang is not
	// let through by its leader.
	free := was != nil || g != nil && !known && g.Open
	gs.mu.Unlock()
	if free && pod.Spec.NodeName == "" {
		gs.Activate(map[string]*corev1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}
	for _, changed := range []*group{was, g} {
		if changed != nil {
			gs.look(changed)
		}
	}
}

// leaveOther takes a pod without a node out of its group if it says something else of its gang by
// now, and returns that group; nil for none. The caller holds the lock.
func (gs *Groups) leaveOther(pod *corev1.Pod) *group {
	g := gs.of[pod.UID]
	if g == nil || pod.Spec.NodeName != "" || g.members[pod.UID].placed() {
		return nil
	}
	if says, _ := wire.ReadMembership(pod); wire.InGang(pod) && says == g.members[pod.UID].claims {
		return nil
	}
	gs.forget(g, pod.UID)
	return g
}

// take brings a member up to date. The caller holds the lock.
func (gs *Groups) take(g *group, pod *corev1.Pod) {
	m := g.members[pod.UID]
	m.pod = pod
	g.sum(m)
	if pod.Spec.NodeName != "" && m.bound.IsZero() {
		m.bound = gs.Clock.Now()
		m.sworn = m.sworn || swears(pod, g.key)
		g.Whole = g.Whole || wire.GangWasWhole(pod)
		gs.place(g, pod.UID)
		gs.placed(g)
	}
	if !m.active() {
		gs.left(g, pod.UID)
	}
}

// Synced says that all pods that were there at the start have been seen.
func (gs *Groups) Synced() {
	gs.mu.Lock()
	gs.synced = true
	gs.mu.Unlock()
	gs.begin()
}

// begin looks at all groups: what was not known, or was not this process's to write, now is.
func (gs *Groups) begin() {
	gs.mu.Lock()
	all := make([]*group, 0, len(gs.groups))
	if gs.synced && gs.Lead.Leads() {
		gs.ledFrom = gs.Clock.Now()
	}
	for _, g := range gs.groups {
		gs.placedAll(g)
		all = append(all, g)
	}
	gs.lookAtVacantIn(statusPause)
	gs.mu.Unlock()
	for _, g := range all {
		gs.look(g)
	}
}

// PodGone takes a deletion in.
func (gs *Groups) PodGone(pod *corev1.Pod) {
	if !gs.any.Load() {
		return
	}
	gs.mu.Lock()
	g := gs.of[pod.UID]
	if g == nil {
		gs.mu.Unlock()
		return
	}
	gs.forget(g, pod.UID)
	gs.unlockAndLook(g)
}

// forget takes a member out of its group. The caller holds the lock.
func (gs *Groups) forget(g *group, uid types.UID) {
	g.drop(g.members[uid])
	delete(gs.of, uid)
	delete(gs.lone, uid)
	delete(g.members, uid)
	gs.left(g, uid)
	if len(g.members) == 0 {
		delete(gs.groups, g.key)
		return
	}
	g.changes++
	g.read()
}

// swears says whether the pod's Binding says that it is of that gang.
func swears(pod *corev1.Pod, key wire.GangKey) bool {
	bound, said := wire.ReadBoundFor(pod)
	return said && bound.Gang == key
}

// sweepEvery is how often what is remembered of pods is compared with the pods that exist.
const sweepEvery = time.Minute

// Until ctx ends, Sweep forgets pods that are gone. uid returns the UID of the pod of that name; ""
// where there is none.
func (gs *Groups) Sweep(ctx context.Context, uid func(namespace, name string) types.UID) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-gs.Clock.After(sweepEvery):
			gs.sweep(uid)
		}
	}
}

func (gs *Groups) sweep(uid func(namespace, name string) types.UID) {
	gs.mu.Lock()
	now := gs.Clock.Now()
	maps.DeleteFunc(gs.evicted, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= leaveTimeout })
	changed := map[*group]bool{}
	for id, g := range gs.of {
		if pod := g.members[id].pod; uid(pod.Namespace, pod.Name) != id {
			gs.forget(g, id)
			changed[g] = true
		}
	}
	gs.mu.Unlock()
	for g := range changed {
		gs.look(g)
	}
}

// left tells the plan that a member is gone. The caller holds the lock.
func (gs *Groups) left(g *group, uid types.UID) {
	gs.on(g, gangs.News{})
	if at := g.placeOf(uid); at != nil {
		gs.lose(g, at, "a member was deleted")
	}
}

// placed draws the conclusions from a member that has its node. The caller holds the lock.
func (gs *Groups) placed(g *group) {
	if !gs.synced {
		return
	}
	was := g.Whole
	gs.on(g, gangs.Placed{Since: gs.boundSince(g), Timeout: gs.timeout(g)})
	if g.settled() {
		g.told = ""
	}
	if g.Whole && !was {
		gs.Logger.V(2).Info("Gang is whole", "gang", g.key)
	}
}

// on lets a group's progress follow an event, and does what comes of it with the lock held. The
// caller holds the lock, and does the rest.
func (gs *Groups) on(g *group, e gangs.Event) (do gangs.Actions) {
	g.Progress, do = gangs.Next(g.Progress, g.conditions(), e, gs.Clock.Now())
	if do.Drop != "" {
		gs.drop(g, do.Drop)
	}
	if first := g.leader(); do.SayWhy && first != nil {
		gs.tell(g, first.pod, g.blocked())
	}
	if do.TellMates {
		go gs.tellMates(g)
	}
	if do.Delete {
		go gs.end(g)
	}
	gs.lookAt(g, do.Again)
	return do
}

// lookAt looks at a group at that moment, and at no other one; zero for at none. The caller holds
// the lock.
func (gs *Groups) lookAt(g *group, at time.Time) {
	if at.Equal(g.again) {
		return
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer, g.again = nil, at
	if at.IsZero() {
		return
	}
	g.timer = later.Call(gs.Clock, max(0, at.Sub(gs.Clock.Now())), func() {
		gs.mu.Lock()
		g.again = time.Time{}
		gs.unlockAndLook(g)
	})
}

// callAt calls do at that moment, or at once where it has passed.
func (gs *Groups) callAt(at time.Time, do func()) {
	later.Call(gs.Clock, max(0, at.Sub(gs.Clock.Now())), do)
}

// ObjectSeen takes the object of a group in; wrong says what is not served of it.
func (gs *Groups) ObjectSeen(spec wire.Gang, wrong error) {
	gs.mu.Lock()
	g := gs.groups[spec.Key]
	if g == nil {
		gs.vacantSeen(spec, wrong)
		gs.mu.Unlock()
		return
	}
	gs.understand(g, spec, wrong)
	gs.unlockAndLook(g)
}

// understand takes over what an object says. The caller holds the lock.
func (gs *Groups) understand(g *group, spec wire.Gang, wrong error) {
	if g.object != "" && !newer(spec.Version, g.object) {
		return
	}
	if g.spec.Minimum != spec.Minimum || g.wrong != nil {
		g.changes++
	}
	before := g.spec.Ignored
	g.spec, g.wrong, g.object = spec, wrong, spec.Version
	if spec.Ignored != "" && spec.Ignored != before {
		gs.Events.Eventf(g.reference(nil), nil, corev1.EventTypeWarning, "PassedOver", "Scheduling", "Berth ignores %s", spec.Ignored)
	}
	g.Whole = g.Whole || spec.Ran && g.hasPlaced()
	g.roomy = g.roomy || spec.Phase == string(volcano.PodGroupInqueue) // it does not go back
	gs.on(g, gangs.News{})
	if wrong == nil {
		gs.placedAll(g)
	}
}

// newer says whether a resource version is later than another. What cannot be compared is.
func newer(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	y, wrong := strconv.ParseUint(b, 10, 64)
	return err != nil || wrong != nil || x > y
}

func (g *group) hasPlaced() bool {
	if g.done.All > 0 {
		return true
	}
	for _, m := range g.members {
		if m.placed() {
			return true
		}
	}
	return false
}

// placedAll looks again at members that got their nodes before the group's minimum was known.
func (gs *Groups) placedAll(g *group) {
	if g.hasPlaced() {
		gs.placed(g)
	}
}

// ObjectGone says that a group's object was deleted.
func (gs *Groups) ObjectGone(key wire.GangKey) {
	gs.mu.Lock()
	delete(gs.vacant, key)
	g := gs.groups[key]
	if g == nil {
		gs.mu.Unlock()
		return
	}
	g.object, g.wrong = "", g.unknown()
	g.changes++
	gs.on(g, gangs.Withdrawn{Why: "its object was deleted"})
	gs.unlockAndLook(g)
}

// Stir says that something has changed which could help a group that does not fit.
func (gs *Groups) Stir() {
	if !gs.any.Load() {
		return
	}
	gs.mu.Lock()
	gs.stirs++
	gs.stirWaves()
	var woken []*group
	for _, g := range gs.groups {
		if g.Why == "" {
			continue
		}
		if gs.on(g, gangs.Stirred{Stirs: gs.stirs}); g.Why == "" {
			woken = append(woken, g)
		}
	}
	alone := slices.Collect(maps.Keys(gs.lone))
	for _, uid := range alone {
		if m := gs.lone[uid].members[uid]; m != nil {
			m.Stir(gs.stirs)
		}
	}
	// The one that has waited longest comes first: others of its priority may come again and again.
	slices.SortFunc(woken, func(a, b *group) int {
		return cmp.Or(a.Complete.Compare(b.Complete), strings.Compare(a.key.String(), b.key.String()))
	})
	gs.mu.Unlock()
	for _, g := range woken {
		gs.look(g)
	}
	for _, uid := range alone {
		gs.lookAlone(uid)
	}
}

// unlockAndLook ends a change of the group.
func (gs *Groups) unlockAndLook(g *group) {
	gs.mu.Unlock()
	gs.look(g)
}

// look lets the leader of a group through that is ready, and asks for the object of one that waits
// for nothing else: an object that was there before its pods is known to nobody. It is called
// without the lock.
func (gs *Groups) look(g *group) {
	gs.mu.Lock()
	if !gs.synced {
		gs.mu.Unlock()
		return
	}
	wake := g.candidates(gs.on(g, gangs.Looked{}).Try)
	idle := gs.forgone(g)
	ask := gs.Lead.Leads() && (g.wrong == nil || g.object == "") && g.fresh < g.changes && !g.confirming && gs.wantsObject(g)
	if ask {
		g.confirming = true
	}
	gs.mu.Unlock()
	gs.forgo(idle)
	if len(wake) > 0 {
		gs.Activate(wake)
	}
	if ask {
		go gs.confirm(g)
	}
	gs.tellStatus(g)
}

// candidates returns the members that may be tried.
func (g *group) candidates(who gangs.Who) map[string]*corev1.Pod {
	var list []*member
	switch first := g.leader(); {
	case who == gangs.First && first != nil:
		list = append(list, first)
	case who == gangs.Everybody:
		list = g.pending()
	}
	out := make(map[string]*corev1.Pod, len(list))
	for _, m := range list {
		out[m.pod.Namespace+"/"+m.pod.Name] = m.pod
	}
	return out
}

// wantsObject says whether the group could be tried if its object were as new as its members.
func (gs *Groups) wantsObject(g *group) bool {
	if !g.key.Source.HasObject() || gs.Objects == nil {
		return false
	}
	return g.lacks(&g.waiting, &g.done) == "" && g.waiting.All > 0
}

// confirm asks the API server for the group's object: what a watch has shown may be older than the
// members (volcano#6010).
func (gs *Groups) confirm(g *group) {
	gs.mu.Lock()
	upTo := g.changes
	gs.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	spec, err := gs.Objects.Read(ctx, g.key)
	cancel()
	gs.mu.Lock()
	g.confirming = false
	switch {
	case isGone(err):
		g.object, g.wrong, g.fresh = "", g.unknown(), upTo
	case spec.Key.IsZero(): // nothing was read
		gs.Logger.Info("Group cannot be read, will try again", "gang", g.key, "err", err)
		gs.callAt(gs.Clock.Now().Add(g.reads.pause()), func() { gs.look(g) })
		gs.mu.Unlock()
		return
	default:
		g.reads = retry{}
		before := g.changes
		gs.understand(g, spec, err)
		if g.fresh = max(g.fresh, upTo); before == upTo {
			g.fresh = g.changes // what was read is itself the change
		}
	}
	gs.unlockAndLook(g)
}

// unseen is the text for a pod that the watch has not shown yet, or no longer shows.
const unseen = "the pod has not been seen yet, or is gone"

// PreEnqueue says whether a pod may be tried; nil when it may.
func (gs *Groups) PreEnqueue(pod *corev1.Pod) *fwk.Status {
	if !wire.InGang(pod) {
		return nil
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.of[pod.UID]
	if g == nil {
		return notNow(unseen)
	}
	if m := g.members[pod.UID]; m.pod.ResourceVersion != pod.ResourceVersion && pod.Spec.NodeName == "" {
		m.pod = pod
		g.sum(m)
	}
	if why := gs.gate(g, pod.UID); why != "" {
		return notNow(why)
	}
	return nil
}

// gate says why a member is not tried; "" when it is. PodSeen wakes the leader of a group that
// became ready by this pod. The caller holds the lock.
func (gs *Groups) gate(g *group, uid types.UID) string {
	if !gs.synced {
		return "the groups of pods have not been read yet"
	}
	name := g.key.String()
	switch c := g.conditions(); g.Phase(c, gs.Clock.Now()) {
	case gangs.Reserved, gangs.Binding:
		if g.placeOf(uid) != nil {
			return ""
		}
		return name + " is being placed without this pod"
	case gangs.Incomplete:
		return c.Blocked
	case gangs.Ending:
		return name + " was not whole in time, and its bound pods are being deleted"
	case gangs.Unconfirmed:
		return name + " is being asked for again"
	case gangs.BackedOff:
		return name + " was tried in vain, and backs off"
	case gangs.Parked:
		return g.Why
	case gangs.Settled:
		return g.members[uid].Why
	}
	if g.members[uid] == g.leader() {
		return ""
	}
	return "the first member of " + name + " plans for all"
}

// reference refers to the group in events: its object, or the given member.
func (g *group) reference(member *corev1.Pod) runtime.Object {
	kind, ok := sources[g.key.Source]
	if !ok {
		return member
	}
	return &corev1.ObjectReference{APIVersion: kind.version.String(), Kind: "PodGroup", Namespace: g.key.Namespace, Name: g.key.Name, UID: g.spec.UID}
}
