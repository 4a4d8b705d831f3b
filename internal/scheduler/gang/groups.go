package gang

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/lead"
	"github.com/berth-dev/berth/internal/wire"
)

// Groups manages all gangs of a scheduler. It receives events, and carries out the decisions of
// gangs.Next. It is safe for concurrent use.
type Groups struct {
	book     *book
	teller   *teller
	barrier  *barrier
	admitter *admitter
	evictor  *evictor
	// following has the plans from which nextMate may still return members.
	following []*planned
	// follows means that Follow was called, so members of a plan are taken from the scheduling
	// queue one after another.
	follows bool
	// lone has the groups of the late members (see attempt) that wait for a time, for a change of
	// the cluster or for another gang (Groups.awaited), by the member's UID.
	lone map[types.UID]*group
}

// New returns Groups without gangs.
func New(o Options) *Groups {
	if o.Lead == nil {
		o.Lead = new(lead.Gate)
	}
	if o.Forgo == nil {
		o.Forgo = func(*corev1.Pod, string) {}
	}
	b := &book{Options: o, groups: map[wire.GangKey]*group{}, of: map[types.UID]*group{}, ahead: map[*group]bool{}}
	gs := &Groups{book: b, teller: &teller{book: b}, barrier: &barrier{clock: o.Clock, waiting: o.Waiting}, lone: map[types.UID]*group{}}
	gs.admitter = &admitter{book: b, admitted: map[wire.GangKey]*admission{}, spoiled: map[string]time.Time{}, vacant: map[wire.GangKey]vacancy{}, tellStatus: gs.teller.tellStatus}
	gs.evictor = &evictor{o: &b.Options, of: b, evicted: map[types.UID]time.Time{}, protected: map[types.UID]int32{}}
	b.stirred = gs.Stir
	gs.book.Lead.Then(gs.begin)
	return gs
}

// PodSeen records a new or changed pod. The pod comes from the scheduler's own watch or from the
// watch of ended pods.
func (gs *Groups) PodSeen(pod *corev1.Pod) {
	gs.evictor.note(pod, pod.Spec.NodeName != "" && !wire.Ended(pod))
	if !gs.book.any.Load() && !belongs(pod) {
		return
	}
	if wire.Ended(pod) {
		gs.Stir() // the pod's resources are free, or will be
	}
	gs.book.mu.Lock()
	if gs.book.Ended != nil && wire.Ended(pod) && !(endings{gs}).wanted(pod) {
		gs.book.mu.Unlock()
		return
	}
	was := gs.leaveOther(pod)
	known := gs.book.of[pod.UID] != nil
	first := !known && (endings{gs}).arrives(pod)
	g := gs.book.join(pod)
	if g != nil {
		if !known {
			gs.on(g, gangs.News{})
		}
		gs.take(g, pod)
		if first {
			endings{gs}.recall(g)
		}
		endings{gs}.prune(g)
	}
	// PreEnqueue may have held this pod because the book did not have it yet. If its gang already
	// has its minimum, no plan takes the pod from the queue, so it is activated here.
	free := was != nil || g != nil && !known && g.Open
	gs.book.mu.Unlock()
	if free && pod.Spec.NodeName == "" {
		gs.book.send(pod)
	}
	for _, changed := range []*group{was, g} {
		if changed != nil {
			gs.look(changed)
		}
	}
}

// leaveOther removes a pod without a node from its group if the pod's annotations and labels no
// longer declare this gang with the same properties. It returns the group that the pod left, or
// nil. The caller holds the lock.
func (gs *Groups) leaveOther(pod *corev1.Pod) *group {
	g := gs.book.of[pod.UID]
	if g == nil || pod.Spec.NodeName != "" || g.members[pod.UID].placed() {
		return nil
	}
	if says, _ := wire.ReadMembership(pod); wire.InGang(pod) && says == g.members[pod.UID].claims {
		return nil
	}
	gs.forget(g, pod.UID)
	return g
}

// take updates a member with a new version of its pod. The caller holds the lock.
func (gs *Groups) take(g *group, pod *corev1.Pod) {
	m := g.members[pod.UID]
	m.pod, m.parted = pod, false
	g.sum(m)
	if pod.Spec.NodeName != "" && m.bound.IsZero() {
		m.bound = gs.book.Clock.Now()
		m.sworn = m.sworn || swears(pod, g.key)
		g.Whole = g.Whole || wire.GangWasWhole(pod)
		gs.place(g, pod.UID)
		gs.placed(g)
	}
	if !m.active() {
		gs.left(g, pod.UID)
	}
}

// Synced records that the watch has shown all pods that existed at the start and had not ended.
func (gs *Groups) Synced() {
	if gs.book.Ended == nil || !gs.book.any.Load() {
		gs.allSeen()
		return
	}
	go func() {
		gs.book.Ended.Await()
		gs.allSeen()
	}()
}

func (gs *Groups) allSeen() {
	gs.book.mu.Lock()
	gs.book.synced = true
	gs.book.mu.Unlock()
	gs.begin()
}

// begin checks all groups. It is called when all pods that existed at the start are known, and when
// this process becomes the leader.
func (gs *Groups) begin() {
	gs.book.mu.Lock()
	all := make([]*group, 0, len(gs.book.groups))
	if gs.book.synced && gs.book.Lead.Leads() {
		gs.book.ledFrom = gs.book.Clock.Now()
	}
	for _, g := range gs.book.groups {
		gs.placedAll(g)
		all = append(all, g)
	}
	gs.admitter.lookAtVacantIn(statusPause)
	gs.book.mu.Unlock()
	for _, g := range all {
		gs.look(g)
	}
}

// PodGone records that the scheduler's watch no longer shows a pod, because the pod has ended or
// was deleted.
func (gs *Groups) PodGone(pod *corev1.Pod) {
	gs.evictor.note(pod, false)
	if !gs.book.any.Load() {
		return
	}
	gs.book.mu.Lock()
	g := gs.book.of[pod.UID]
	if g == nil {
		gs.book.mu.Unlock()
		return
	}
	switch ended, open := (endings{gs}).part(g.members[pod.UID], pod); {
	case ended != nil:
		gs.book.mu.Unlock()
		gs.PodSeen(ended)
	case open:
		gs.book.mu.Unlock()
	default:
		gs.forget(g, pod.UID)
		gs.unlockAndLook(g)
	}
}

// forget removes a member from its group. If the group then has no members, forget also removes the
// group from the book. The caller holds the lock.
func (gs *Groups) forget(g *group, uid types.UID) {
	g.drop(g.members[uid])
	delete(gs.book.of, uid)
	delete(gs.lone, uid)
	delete(g.members, uid)
	gs.left(g, uid)
	if len(g.members) == 0 {
		delete(gs.book.groups, g.key)
		if g.Whole {
			gs.admitter.keepsNothing(g.key)
		}
		if g.object != "" {
			gs.admitter.vacantSeen(g.spec, g.wrong)
		}
		return
	}
	g.changes++
	g.read()
}

// sweepEvery is the interval at which Sweep checks whether the stored pods and namespaces still
// exist.
const sweepEvery = time.Minute

// Sweep removes stored data of pods and namespaces that are gone, every sweepEvery until ctx ends.
// The function uid returns the UID of the pod with the given name, or "". The function gone reports
// whether a namespace does not exist.
func (gs *Groups) Sweep(ctx context.Context, uid func(namespace, name string) types.UID, gone func(namespace string) bool) {
	for later.Wait(ctx, gs.book.Clock, sweepEvery) {
		gs.sweep(uid, gone)
	}
}

func (gs *Groups) sweep(uid func(namespace, name string) types.UID, gone func(namespace string) bool) {
	gs.evictor.awaits() // called to forget old evictions
	gs.book.mu.Lock()
	gs.book.shares.Forget(gs.book.Clock.Now(), gone)
	gs.admitter.forgive(gone)
	changed := map[*group]bool{}
	for id, g := range gs.book.of {
		if pod := g.members[id].pod; uid(pod.Namespace, pod.Name) != id && (gs.book.Ended == nil || gs.book.Ended.Last(pod) == nil) {
			gs.forget(g, id)
			changed[g] = true
		}
	}
	gs.book.mu.Unlock()
	for g := range changed {
		gs.look(g)
	}
}

// left updates the group and its plan. It is called when a member was removed, has ended or is
// being deleted. The caller holds the lock.
func (gs *Groups) left(g *group, uid types.UID) {
	gs.on(g, gangs.News{})
	if at := g.placeOf(uid); at != nil {
		gs.lose(g, at, "a member was deleted")
	}
}

// placed updates the group's progress after a member got its node. The caller holds the lock.
func (gs *Groups) placed(g *group) {
	if !gs.book.synced {
		return
	}
	was := g.Whole
	gs.on(g, gangs.Placed{Since: gs.book.boundSince(g), Timeout: gs.book.timeout(g)})
	if g.settled() {
		gs.teller.tell(g, nil, "")
	}
	if g.Whole && !was {
		gs.book.Logger.V(2).Info("Gang is whole", "gang", g.key)
	}
}

// on applies an event to a group's progress. It carries out the resulting actions except Release
// and Try. The caller carries these out, but not while it holds the lock. The caller holds the lock
// during the call of on.
func (gs *Groups) on(g *group, e gangs.Event) (do gangs.Actions) {
	c, now := g.conditions(), gs.book.Clock.Now()
	g.Progress, do = gangs.Next(g.Progress, c, e, now)
	gs.goAhead(g, g.GoesAhead(c, now))
	if do.Drop != "" {
		gs.drop(g, do.Drop)
	}
	if first := g.leader(); do.SayWhy && first != nil {
		gs.teller.tell(g, first.pod, g.blockedBy())
	}
	if do.TellMates {
		go gs.teller.tellMates(g)
	}
	if do.Delete {
		go gs.end(g)
	}
	gs.lookAt(g, do.Again)
	return do
}

// lookAt sets the timer of a group to the given time. If the time is zero, lookAt only stops the
// timer. The caller holds the lock.
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
	g.timer = later.Call(gs.book.Clock, max(0, at.Sub(gs.book.Clock.Now())), func() {
		gs.book.mu.Lock()
		g.again = time.Time{}
		gs.unlockAndLook(g)
	})
}

// ObjectSeen records the object of a group. The parameter wrong names the fields that are not
// supported, or is nil.
func (gs *Groups) ObjectSeen(spec wire.Gang, wrong error) {
	gs.book.mu.Lock()
	g := gs.book.groups[spec.Key]
	if g == nil {
		gs.admitter.vacantSeen(spec, wrong)
		gs.book.mu.Unlock()
		return
	}
	gs.understand(g, spec, wrong)
	gs.unlockAndLook(g)
}

// understand applies the content of an object to its group. It ignores a version that is not newer
// than the known version. The caller holds the lock.
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
		gs.book.Events.Eventf(g.reference(nil), nil, corev1.EventTypeWarning, "PassedOver", "Scheduling", "Berth ignores %s", spec.Ignored)
	}
	g.Whole = g.Whole || spec.Ran && g.hasPlaced()
	if !gangs.NotLetIn(spec.Phase) {
		g.letIn = true
		gs.admitter.wasLetIn(g, &spec)
	}
	gs.on(g, gangs.News{})
	if wrong == nil {
		gs.placedAll(g)
	}
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

// placedAll updates the group's progress if any member has a node, because members may have got
// nodes before the minimum was known. The caller holds the lock.
func (gs *Groups) placedAll(g *group) {
	if g.hasPlaced() {
		gs.placed(g)
	}
}

// ObjectGone records that a group's object was deleted.
func (gs *Groups) ObjectGone(key wire.GangKey) {
	gs.book.mu.Lock()
	delete(gs.admitter.vacant, key)
	freed := gs.admitter.discharge(key)
	g := gs.book.groups[key]
	if freed {
		gs.book.callAt(gs.book.Clock.Now(), gs.book.stirred)
	}
	if g == nil {
		gs.book.mu.Unlock()
		return
	}
	g.object, g.wrong = "", g.unknown()
	g.changes++
	gs.on(g, gangs.Withdrawn{Why: "its object was deleted"})
	gs.unlockAndLook(g)
}

// Stir records a change of the cluster that could help a group that does not fit. Stir then checks
// the groups that wait for a change.
func (gs *Groups) Stir() {
	if !gs.book.any.Load() {
		return
	}
	gs.book.mu.Lock()
	gs.book.stirs++
	gs.barrier.stir()
	var woken []*group
	for _, g := range gs.book.groups {
		if g.Why == "" {
			continue
		}
		if gs.on(g, gangs.Stirred{Stirs: gs.book.stirs}); g.Why == "" {
			woken = append(woken, g)
		}
	}
	alone := slices.Collect(maps.Keys(gs.lone))
	for _, uid := range alone {
		if m := gs.lone[uid].members[uid]; m != nil && gs.awaited(gs.lone[uid], m) == "" {
			m.Stir(gs.book.stirs)
		}
	}
	// The group that has waited longest comes first, so that new groups of the same priority cannot
	// always precede it.
	slices.SortFunc(woken, func(a, b *group) int {
		return cmp.Or(a.Complete.Compare(b.Complete), strings.Compare(a.key.String(), b.key.String()))
	})
	gs.book.mu.Unlock()
	for _, g := range woken {
		gs.look(g)
	}
	for _, uid := range alone {
		gs.lookAlone(uid)
	}
}

// change calls the function do for the group of a member, with the lock held. If do returns true,
// change releases the lock and checks the group.
func (gs *Groups) change(uid types.UID, do func(g *group) bool) {
	if !gs.book.any.Load() {
		return
	}
	gs.book.mu.Lock()
	g := gs.book.of[uid]
	if g == nil || !do(g) {
		gs.book.mu.Unlock()
		return
	}
	gs.unlockAndLook(g)
}

// unlockAndLook releases the lock after a change of the group, and checks the group.
func (gs *Groups) unlockAndLook(g *group) {
	gs.book.mu.Unlock()
	gs.look(g)
}

// look activates the members that gangs.Next selects. If the known object may be older than the
// members, look starts a request for the object. This request also finds an object that was created
// before its pods: the event of such an object came before the group was in the book. The caller
// must not hold the lock.
func (gs *Groups) look(g *group) {
	gs.book.mu.Lock()
	if !gs.book.synced {
		gs.book.mu.Unlock()
		return
	}
	wake := g.candidates(gs.on(g, gangs.Looked{}).Try)
	gs.admitter.atGate(g)
	if g.Whole && g.ended == len(g.members) {
		gs.admitter.keepsNothing(g.key)
	}
	idle := g.forgone()
	ask := gs.book.Lead.Leads() && (g.wrong == nil || g.object == "") && g.fresh < g.changes && !g.confirming && gs.book.wantsObject(g)
	if ask {
		g.confirming = true
	}
	gs.book.mu.Unlock()
	gs.teller.forgo(idle)
	gs.book.send(wake...)
	if ask {
		go gs.confirm(g)
	}
	gs.teller.tellStatus(g)
}

func (g *group) candidates(who gangs.Who) (pods []*corev1.Pod) {
	switch first := g.leader(); {
	case who == gangs.First && first != nil:
		return []*corev1.Pod{first.pod}
	case who == gangs.Everybody:
		for _, m := range g.pending() {
			pods = append(pods, m.pod)
		}
	}
	return pods
}

// confirm reads the group's object from the API server, because the watch may have shown only a
// version that is older than the members (volcano#6010).
func (gs *Groups) confirm(g *group) {
	gs.book.mu.Lock()
	upTo := g.changes
	gs.book.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	spec, err := gs.book.Objects.Read(ctx, g.key)
	cancel()
	gs.book.mu.Lock()
	g.confirming = false
	switch {
	case isGone(err):
		g.object, g.wrong, g.fresh = "", g.unknown(), upTo
	case spec.Key.IsZero(): // the object could not be read
		gs.book.Logger.Info("Group cannot be read, will try again", "gang", g.key, "err", err)
		gs.book.callAt(gs.book.Clock.Now().Add(g.reads.pause()), func() { gs.look(g) })
		gs.book.mu.Unlock()
		return
	default:
		g.reads = retry{}
		before := g.changes
		gs.understand(g, spec, err)
		if g.fresh = max(g.fresh, upTo); before == upTo {
			g.fresh = g.changes // the only change since the request is the object itself
		}
	}
	gs.unlockAndLook(g)
}

// Permit makes a member wait for the other members. When the last member of the plan reaches
// Permit, all members of the plan pass.
func (gs *Groups) Permit(pod *corev1.Pod) (*fwk.Status, time.Duration) {
	if !wire.InGang(pod) {
		return nil, 0
	}
	gs.book.mu.Lock()
	g := gs.book.of[pod.UID]
	if g == nil {
		gs.book.mu.Unlock()
		return nil, 0
	}
	at := g.placeOf(pod.UID)
	switch {
	case at == nil && g.settled():
		gs.book.mu.Unlock()
		return nil, 0
	case at == nil:
		gs.book.mu.Unlock()
		return fwk.NewStatus(fwk.Unschedulable, "Berth: the plan of its gang was dropped"), 0
	}
	at.arrived = true
	if !gs.on(g, gangs.Arrived{All: g.plan.complete()}).Release {
		left := max(time.Millisecond, g.plan.deadline.Sub(gs.book.Clock.Now()))
		gs.book.mu.Unlock()
		return fwk.NewStatus(fwk.Wait, "Berth: waits for its gang"), left
	}
	pass := g.plan.members()
	gs.book.mu.Unlock()
	gs.barrier.allow(pass)
	return nil, 0
}

// Bound records that a member's Binding to the node was written.
func (gs *Groups) Bound(uid types.UID, node string) {
	gs.change(uid, func(g *group) bool {
		if m := g.members[uid]; m != nil && !m.posted {
			m.posted, m.node, m.sworn = true, node, true
			g.sum(m)
			if m.bound.IsZero() {
				m.bound = gs.book.Clock.Now()
			}
		}
		gs.place(g, uid)
		gs.placed(g)
		return true
	})
}

// place removes a member that has its node from the plan of its group. The caller holds the lock.
func (gs *Groups) place(g *group, uid types.UID) {
	if at := g.placeOf(uid); at != nil {
		g.plan.remove(at)
		gs.endIfDone(g)
	}
}

// endIfDone ends a plan that has no members left. If all planned members were bound, the gang
// becomes whole, even if its minimum has been raised since the plan was made. The caller holds the
// lock.
func (gs *Groups) endIfDone(g *group) {
	if p := g.plan; p != nil && len(p.places) == 0 {
		g.plan = nil
		gs.on(g, gangs.PlanDone{Lost: p.lost})
	}
}

// Failed records that the scheduling cycle of a member has failed, at any step. The text why is for
// users.
func (gs *Groups) Failed(uid types.UID, why string) {
	gs.change(uid, func(g *group) bool {
		at := g.placeOf(uid)
		if at != nil {
			gs.lose(g, at, why)
		}
		return at != nil
	})
}

// lose removes a failed member from its plan. The other members continue if all have passed Permit,
// or if they reach the minimum. If neither is true, the plan is dropped. The caller holds the lock.
func (gs *Groups) lose(g *group, at *place, why string) {
	p := g.plan
	p.remove(at)
	if at.account != nil {
		at.account.Forget(string(at.uid))
	}
	before := p.lost
	if g.Doing == gangs.Binding {
		p.lost = true
		p.endLater(at)
		gs.barrier.stir()
	}
	if gs.on(g, gangs.Lost{Why: why, Enough: p.enough() && len(p.places) > 0, All: p.complete(), Before: before}).Release {
		gs.barrier.nowAndAgain(func() { gs.allowPlan(g, p) })
	}
	gs.endIfDone(g)
}

// Follow wraps next, the function that takes the next entry from the scheduling queue. The returned
// function first takes the members of new plans, one after another and without other pods in
// between. For each member, it calls take, which removes the member's entry from the queue and
// returns it, or returns the zero value if the queue does not have the entry. L is the type of the
// logger, and E the type of the queue's entries.
func Follow[L any, E comparable](gs *Groups, next func(L) (E, error), take func(L, *corev1.Pod) E) func(L) (E, error) {
	gs.book.mu.Lock()
	gs.follows = true
	gs.book.mu.Unlock()
	return func(logger L) (E, error) {
		var none E
		gs.book.Lead.Open()
		gs.barrier.callAgain()
		for pod := gs.nextMate(); pod != nil; pod = gs.nextMate() {
			if found := take(logger, pod); found != none {
				return found, nil
			}
			// The pod is not in the queue yet: activate it, so that it is tried soon.
			gs.book.send(pod)
		}
		return next(logger)
	}
}

// lookAlone activates a late member if its wait is over.
func (gs *Groups) lookAlone(uid types.UID) {
	gs.book.mu.Lock()
	g := gs.lone[uid]
	var m *member
	if g != nil {
		m = g.members[uid]
	}
	if m == nil || !m.Over(gs.book.Clock.Now()) {
		gs.book.mu.Unlock()
		return
	}
	delete(gs.lone, uid)
	pod := m.pod
	gs.book.mu.Unlock()
	gs.book.send(pod)
}

// end deletes the bound members of a gang that missed its deadline, after it has read from the API
// server that the gang is not whole. If a request fails, end runs again later.
func (gs *Groups) end(g *group) {
	gs.book.mu.Lock()
	fresh, overdue := g.copy(), !g.Whole && !g.Deadline.IsZero() && gs.book.groups[g.key] == g
	gs.book.mu.Unlock()
	var err error
	if overdue {
		if err = gs.teller.recount(fresh); err == nil && fresh.wrong == nil && !fresh.Whole {
			err = gs.teller.deleteAll(fresh)
		}
	}
	gs.book.mu.Lock()
	if err != nil {
		gs.book.Logger.Info("Cannot delete the members of a gang that missed its deadline, will try again", "gang", g.key, "err", err)
		gs.book.callAt(gs.book.Clock.Now().Add(g.deletions.pause()), func() { gs.end(g) })
		gs.book.mu.Unlock()
		return
	}
	g.deletions = retry{}
	gs.on(g, gangs.Ended{Whole: fresh.Whole})
	gs.unlockAndLook(g)
}
