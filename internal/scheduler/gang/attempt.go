package gang

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Turn is what a member's PreFilter is told.
type Turn struct {
	// Node is the member's planned node; "" where it goes its own way, or is not tried.
	Node string
	// Held is why it is not tried; nil where it is.
	Held *fwk.Status
}

// PreFilter tells a member where it goes. The first one of a ready group has all planned. The queue
// of the ones that back off does not ask PreEnqueue, so the group's state is asked for again.
func (gs *Groups) PreFilter(ctx context.Context, profile Profile, pod *corev1.Pod) Turn {
	if !wire.InGang(pod) {
		return Turn{}
	}
	gs.mu.Lock()
	g := gs.of[pod.UID]
	if g == nil {
		gs.mu.Unlock()
		return Turn{Held: notNow(unseen)}
	}
	if at := g.placeOf(pod.UID); at != nil {
		defer gs.mu.Unlock()
		return Turn{Node: at.node}
	}
	if why := gs.gate(g, pod.UID); why != "" {
		defer gs.mu.Unlock()
		return Turn{Held: notNow(why)}
	}
	if g.settled() && !g.asksOf(pod) {
		defer gs.mu.Unlock()
		return Turn{}
	}
	job := gs.job(g, pod.UID)
	gs.mu.Unlock()

	begun := gs.Clock.Now()
	made := job.try(ctx, profile)
	made.took = gs.Clock.Now().Sub(begun)
	planDuration.Observe(made.took.Seconds())
	return gs.conclude(g, pod, job, made)
}

// notNow is the status of a member that is not tried for another reason than that capacity is
// missing.
func notNow(why string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: "+why)
}

// job is what a trial is made of: copies, so that no lock is held while it goes on.
type job struct {
	gang  plan.Gang
	pods  []*corev1.Pod
	tasks []string
	stirs uint64
	bound int
	// seated are the members that have nodes, where anybody asks anything about another's place.
	seated []*corev1.Pod
	// single: the gang has its minimum, and the pod comes after it.
	single bool
	// resources must be free before anything is planned.
	resources corev1.ResourceList
}

// job takes down what to plan: for all members, or, in a gang that has its minimum, for the one
// alone. The caller holds the lock.
func (gs *Groups) job(g *group, one types.UID) *job {
	j := &job{stirs: gs.stirs, bound: g.done.All, single: g.settled()}
	planned := g.atOnce()
	left := g.needed()
	j.gang.Minimum, j.gang.Tasks = left.All, left.Tasks
	if j.single {
		planned, j.gang.Minimum = []*member{g.members[one]}, 1
	}
	for _, m := range planned {
		j.pods = append(j.pods, m.pod)
		j.tasks = append(j.tasks, m.says.Task)
	}
	if g.asking > 0 {
		j.seated = g.seated()
	}
	if !g.roomy && !g.Whole {
		j.resources = g.spec.Resources
	}
	return j
}

// result is what came of a trial.
type result struct {
	plan.Plan
	trial *trial
	// short says which of the resources are missing that the group names; "" where none is.
	short string
	// wrong is why it could not be made at all.
	wrong *fwk.Status
	// took is how long it took.
	took time.Duration
}

// conclude reserves the plan, or notes why there is none.
func (gs *Groups) conclude(g *group, pod *corev1.Pod, j *job, r *result) Turn {
	if j.single && r.wrong != nil {
		return gs.singleDoesNotFit(g, pod, j, r.wrong.Message(), nil)
	}
	if r.wrong != nil {
		return gs.vain(g, pod, notNow(r.wrong.Message()), failedInput)
	}
	if !r.Whole {
		return gs.doesNotFit(g, pod, j, r)
	}
	p, refused := j.reserve(g, r)
	if refused != "" {
		return gs.vain(g, pod, notNow(refused), failedChanged)
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if !gs.stillThere(g, p) {
		p.forget()
		return Turn{Held: notNow("a member left while its gang was planned")}
	}
	g.plan, g.kept, g.roomy = p, nil, true
	gs.on(g, gangs.PlanMade{Timeout: gs.timeout(g)})
	p.deadline = g.Together
	gs.following = append(gs.following, p)
	plansMade.Inc()
	gs.Logger.V(2).Info("Gang is planned", "gang", g.key, "members", len(p.places), "minimum", g.spec.Minimum)
	at := p.by[pod.UID]
	if at == nil {
		return Turn{Held: notNow(g.key.String() + " is being placed without this pod")}
	}
	at.sent = true
	if !gs.follows {
		go gs.Activate(j.named())
	}
	return Turn{Node: at.node}
}

// named returns the pods as the scheduling queue takes them.
func (j *job) named() map[string]*corev1.Pod {
	out := make(map[string]*corev1.Pod, len(j.pods))
	for _, pod := range j.pods {
		out[pod.Namespace+"/"+pod.Name] = pod
	}
	return out
}

// reserve reserves what was planned, whole. It says which member was refused after all, and
// reserves nothing then: the node has changed since it was forked.
func (j *job) reserve(g *group, r *result) (p *planned, refused string) {
	p = &planned{group: g, by: map[types.UID]*place{}, alone: make(chan struct{})}
	for _, at := range r.Places {
		account := r.trial.Account(at.Node)
		pod, c := j.pods[at.Member], j.gang.Members[at.Member].Candidate
		if c == nil {
			account = nil
		}
		made := newPlace(pod.UID, j.tasks[at.Member], r.trial.name(at.Node), account)
		made.wave = at.Wave
		p.places = append(p.places, made)
		p.by[pod.UID] = made
		if account == nil {
			continue
		}
		tried, d := *c, placement.Decision{}
		tried.Loose, tried.Wave = at.Loose, at.Wave
		if a := account.Reserve(&tried, &d); !a.OK() {
			p.forget()
			return nil, fmt.Sprintf("node %s has changed while the gang was planned", made.node)
		}
		if err := r.trial.profile.Check(pod, &d); err != nil {
			p.forget()
			return nil, "Berth cannot write the placement: " + err.Error()
		}
	}
	inTurn(p.places)
	if p.last = closing(p.places); len(p.places) == 1 {
		close(p.alone)
	}
	return p, ""
}

// forget gives back what is reserved for members that have not come to Permit. The others are
// given back by Unreserve.
func (p *planned) forget() {
	for _, at := range p.places {
		if at.account != nil && !at.arrived {
			at.account.Forget(string(at.uid))
		}
	}
}

// stillThere says whether all members of a plan still want a node. The caller holds the lock.
func (gs *Groups) stillThere(g *group, p *planned) bool {
	for _, at := range p.places {
		if m := g.members[at.uid]; m == nil || !m.pending() {
			return false
		}
	}
	return g.wrong == nil && gs.groups[g.key] == g && g.Doing != gangs.Ending
}

// vain notes that a group was tried in vain, and backs it off.
func (gs *Groups) vain(g *group, pod *corev1.Pod, status *fwk.Status, reason string) Turn {
	plansDropped.WithLabelValues(reason).Inc()
	gs.mu.Lock()
	gs.on(g, gangs.Failed{})
	gs.tell(g, pod, status.Message())
	gs.mu.Unlock()
	return Turn{Held: status}
}

// doesNotFit notes that a group does not fit. It is tried again when the cluster has changed.
func (gs *Groups) doesNotFit(g *group, pod *corev1.Pod, j *job, r *result) Turn {
	why := j.explain(r)
	if j.single {
		gs.mu.Lock()
		m := g.members[pod.UID]
		gs.mu.Unlock()
		if m == nil { // it was deleted meanwhile
			return gs.singleDoesNotFit(g, pod, j, why, nil)
		}
		e, _, cut := gs.room(j, r, &m.Wait)
		return gs.singleDoesNotFit(g, pod, j, why+cut, e)
	}
	begun := gs.Clock.Now()
	e, waits, cut := gs.room(j, r, &g.Wait)
	why += cut
	r.took += gs.Clock.Now().Sub(begun)
	if e != nil {
		gs.nominate(j, r.trial, e, pod.UID)
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.kept = nil
	g.roomy = g.roomy || r.short == ""
	misfit := gangs.Misfit{Tried: j.stirs, Stirs: gs.stirs, Pause: gangs.ShortestPause}
	if waits && e == nil {
		// A report will tell, and costs nobody anything: no back-off.
		why = "waits for nodes' next reports: " + why
		misfit.Why = g.key.String() + " " + why
		gs.on(g, misfit)
		gs.tell(g, pod, why)
		return Turn{Held: notNow(misfit.Why)}
	}
	plansDropped.WithLabelValues(failedCapacity).Inc()
	if misfit.Lacking = e == nil; e != nil {
		why += "; it " + e.text()
		g.keep(j, e, pod.UID)
		gs.sendAway(e.victims, g.key.String())
	}
	why = "does not fit: " + why
	misfit.Why, misfit.Pause = g.key.String()+" "+why, gs.share(g, misfit.Lacking, r.took)
	gs.on(g, misfit)
	gs.tell(g, pod, why)
	return Turn{Held: fwk.NewStatus(fwk.Unschedulable, "Berth: "+misfit.Why)}
}

// room says who would have to go for what does not fit, and whether nodes' reports could show room:
// that is not awaited for ever. cut says that the search for victims found nobody
// before it was cut off.
func (gs *Groups) room(j *job, r *result, w *gangs.Wait) (e *eviction, waits bool, cut string) {
	waits = r.short == "" && r.hopes()
	if r.short != "" || gs.patient(w, waits) {
		return nil, waits, ""
	}
	e, stopped := gs.evict(j, r.trial)
	if e == nil && stopped {
		cut = "; " + searchCut
	}
	return e, waits, cut
}

// patient says whether nobody is evicted yet, because a report may show room.
func (gs *Groups) patient(w *gangs.Wait, reports bool) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return w.Patient(reports, gs.Clock.Now())
}

// singleDoesNotFit notes that a pod has no place beside its gang, which has its minimum. Others
// that come after it are not kept waiting. Those are evicted without whom it fits; nil for none.
func (gs *Groups) singleDoesNotFit(g *group, pod *corev1.Pod, j *job, why string, e *eviction) Turn {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	why = "pod " + pod.Name + " comes after its gang, and asks about its mates' NUMA nodes: " + why
	nominated := ""
	if e != nil {
		why += "; it " + e.text()
		nominated = e.nodes[pod.UID]
		gs.sendAway(e.victims, "pod "+pod.Namespace+"/"+pod.Name)
	}
	if m := g.members[pod.UID]; m != nil {
		now := gs.Clock.Now()
		m.Begin(&gangs.Misfit{Why: why, Tried: j.stirs, Stirs: gs.stirs, Pause: gangs.ShortestPause}, now)
		m.nominated, gs.lone[pod.UID] = nominated, g
		for _, pause := range []time.Duration{gangs.ShortestPause, gangs.LongestWait} {
			gs.callAt(now.Add(pause), func() { gs.lookAlone(pod.UID) })
		}
	}
	gs.tell(g, pod, why)
	return Turn{Held: fwk.NewStatus(fwk.Unschedulable, "Berth: "+why)}
}

// lookAlone sends a pod that comes after its gang to be tried, where it has waited for long enough.
func (gs *Groups) lookAlone(uid types.UID) {
	gs.mu.Lock()
	g := gs.lone[uid]
	var m *member
	if g != nil {
		m = g.members[uid]
	}
	if m == nil || !m.Over(gs.Clock.Now()) {
		gs.mu.Unlock()
		return
	}
	delete(gs.lone, uid)
	pod := m.pod
	gs.mu.Unlock()
	gs.Activate(map[string]*corev1.Pod{pod.Namespace + "/" + pod.Name: pod})
}

// share is how long a group that does not fit is not tried, whatever changes, where an attempt took
// so long: the attempts of all such groups together take a tenth of the scheduler's time. A longer
// pause would leave the room to the ones that come later and have not failed yet.
func (gs *Groups) share(tried *group, lacks bool, took time.Duration) time.Duration {
	lacking := 0
	for _, g := range gs.groups {
		if g == tried && lacks || g != tried && g.Lacking {
			lacking++
		}
	}
	return min(gangs.LongestPause, max(gangs.ShortestPause, 10*took*time.Duration(lacking)))
}

// tell writes an event about the group, unless it says what the last one said. The caller holds the
// lock.
func (gs *Groups) tell(g *group, pod *corev1.Pod, why string) {
	if why == g.told || !gs.Lead.Leads() {
		return
	}
	g.told = why
	gs.Events.Eventf(g.reference(pod), nil, corev1.EventTypeWarning, "GangNotPlaced", "Scheduling", "%s", clip.Text(why, clip.Event))
}

// Mate says whether a pod is a member whose plan stands, and where it goes.
func (gs *Groups) Mate(uid types.UID) (node string, ok bool) {
	if !gs.any.Load() {
		return "", false
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if at := gs.of[uid].placeOf(uid); at != nil {
		return at.node, true
	}
	return "", false
}

// Reserve says why a planned member may not have its node; nil where it may. The ledger has held
// its place since the plan was made.
func (gs *Groups) Reserve(pod *corev1.Pod, node string, account *ledger.Node) *fwk.Status {
	at, ok := gs.Mate(pod.UID)
	switch {
	case !ok || at != node:
		return fwk.NewStatus(fwk.Unschedulable, "Berth: the plan of its gang was dropped")
	case account != nil && !account.Holds(string(pod.UID)):
		return fwk.NewStatus(fwk.Unschedulable, "Berth: what was reserved for its gang on "+node+" does not hold any more")
	}
	return nil
}

// Alone says whether the pod goes its own way: it is of no gang, or of one that has its minimum.
func (gs *Groups) Alone(pod *corev1.Pod) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.of[pod.UID]
	return g == nil || !g.Planned() && g.settled()
}

// Permit makes a member wait for its mates. The last one lets all pass.
func (gs *Groups) Permit(pod *corev1.Pod) (*fwk.Status, time.Duration) {
	if !wire.InGang(pod) {
		return nil, 0
	}
	gs.mu.Lock()
	g := gs.of[pod.UID]
	if g == nil {
		gs.mu.Unlock()
		return nil, 0
	}
	at := g.placeOf(pod.UID)
	switch {
	case at == nil && g.settled():
		gs.mu.Unlock()
		return nil, 0
	case at == nil:
		gs.mu.Unlock()
		return fwk.NewStatus(fwk.Unschedulable, "Berth: the plan of its gang was dropped"), 0
	}
	at.arrived = true
	if !gs.on(g, gangs.Arrived{All: g.plan.complete()}).Release {
		left := max(time.Millisecond, g.plan.deadline.Sub(gs.Clock.Now()))
		gs.mu.Unlock()
		return fwk.NewStatus(fwk.Wait, "Berth: waits for its gang"), left
	}
	pass := g.plan.members()
	gs.mu.Unlock()
	gs.allow(pass)
	return nil, 0
}

// members are the members that are left in a plan.
func (p *planned) members() (pass []types.UID) {
	for _, at := range p.places {
		pass = append(pass, at.uid)
	}
	return pass
}

func (gs *Groups) allow(uids []types.UID) {
	for _, uid := range uids {
		if w := gs.Waiting(uid); w != nil {
			w.Allow(Name)
		}
	}
}

// maxRejects bounds how often a member is looked for in Permit that is about to wait there.
const maxRejects = 20

// reject ends the waiting of members in Permit. One whose Permit has just answered may not wait
// yet.
func (gs *Groups) reject(uids []types.UID, why string, tries int) {
	var left []types.UID
	for _, uid := range uids {
		if w := gs.Waiting(uid); w == nil {
			left = append(left, uid)
		} else {
			w.Reject(Name, "the plan of its gang was dropped: "+why)
		}
	}
	if len(left) > 0 && tries > 0 {
		gs.callAt(gs.Clock.Now().Add(gangs.FirstPause/10), func() { gs.reject(left, why, tries-1) })
	}
}

// Name is that of the plugin, by which members wait in Permit.
const Name = "Berth"

// AwaitTurn waits until the members that come before on the same node have been dealt with: their
// nodes were asked in the order of the plan. It waits for the report of the ones that come in waves
// before, and the last one of a gang for all others.
func (gs *Groups) AwaitTurn(ctx context.Context, uid types.UID) error {
	if !gs.any.Load() {
		return nil
	}
	p, at := gs.placeOf(uid)
	if at == nil {
		return nil
	}
	if at.turn != nil {
		select {
		case <-at.turn:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if at.wave > 0 {
		if err := gs.awaitWave(ctx, at, p.deadline); err != nil {
			return err
		}
	}
	return awaitMates(ctx, p, at)
}

// placeOf returns a member's plan and place; nil where it has none.
func (gs *Groups) placeOf(uid types.UID) (*planned, *place) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if at := gs.of[uid].placeOf(uid); at != nil {
		return gs.of[uid].plan, at
	}
	return nil, nil
}

// AwaitMates is AwaitTurn for a member for which nothing is pinned: no node was asked in any order.
func (gs *Groups) AwaitMates(ctx context.Context, uid types.UID) error {
	if !gs.any.Load() {
		return nil
	}
	p, at := gs.placeOf(uid)
	if at == nil {
		return nil
	}
	return awaitMates(ctx, p, at)
}

// awaitMates makes the last member of a plan wait until the others are bound, or have failed. Each
// of them is, when its Binding is.
func awaitMates(ctx context.Context, p *planned, at *place) error {
	if p.last != at {
		return nil
	}
	select {
	case <-p.alone:
	case <-at.over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// BoundFor is what the Binding of a pod should say about its gang; the zero value for a pod of
// none.
func (gs *Groups) BoundFor(uid types.UID) wire.BoundFor {
	if !gs.any.Load() {
		return wire.BoundFor{}
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.of[uid]
	if g == nil {
		return wire.BoundFor{}
	}
	m, with := g.members[uid], gangs.Count{}
	if !m.summed.done {
		with.Add(m.says.Task, 1)
	}
	whole := g.wrong == nil && g.spec.Minimum > 0 && g.lacks(&g.done, &with) == ""
	return wire.BoundFor{Gang: g.key, Whole: whole}
}

// Why a member no longer waits for its wave.
var (
	errWaveOver = errors.New("a member of the gang that had to come before it on its node has failed, or the plan was dropped")
	errWaveLate = errors.New("the node did not report in time the members of the gang that come before it")
)

// awaitWave waits until the node has reported the members that come in waves before. Nobody waits
// beyond the plan's deadline.
func (gs *Groups) awaitWave(ctx context.Context, at *place, deadline time.Time) error {
	limit := gs.Clock.NewTimer(max(0, deadline.Sub(gs.Clock.Now())))
	defer limit.Stop()
	for {
		gs.mu.Lock()
		stirred := gs.nextStir()
		gs.mu.Unlock()
		if at.account.Due(string(at.uid)) {
			return nil
		}
		select {
		case <-stirred:
		case <-at.over:
			return errWaveOver
		case <-limit.C():
			return errWaveLate
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nextStir returns what is closed at the next change. The caller holds the lock.
func (gs *Groups) nextStir() <-chan struct{} {
	if gs.waves == nil {
		gs.waves = make(chan struct{})
	}
	return gs.waves
}

// stirWaves has those who wait for their waves look again. The caller holds the lock.
func (gs *Groups) stirWaves() {
	if gs.waves != nil {
		close(gs.waves)
		gs.waves = nil
	}
}

// Bound notes that a member's Binding to the node was written.
func (gs *Groups) Bound(uid types.UID, node string) {
	if !gs.any.Load() {
		return
	}
	gs.mu.Lock()
	g := gs.of[uid]
	if g == nil {
		gs.mu.Unlock()
		return
	}
	if m := g.members[uid]; m != nil && !m.posted {
		m.posted, m.node, m.sworn = true, node, true
		g.sum(m)
		if m.bound.IsZero() {
			m.bound = gs.Clock.Now()
		}
	}
	gs.place(g, uid)
	gs.placed(g)
	gs.unlockAndLook(g)
}

// place takes a member that has its node out of the plan. The caller holds the lock.
func (gs *Groups) place(g *group, uid types.UID) {
	if at := g.placeOf(uid); at != nil {
		g.plan.remove(at)
		gs.endIfDone(g)
	}
}

// endIfDone ends a plan with nothing left in it. Where all its members were bound the gang was
// whole, by the minimum that it was planned for. The caller holds the lock.
func (gs *Groups) endIfDone(g *group) {
	if p := g.plan; p != nil && len(p.places) == 0 {
		g.plan = nil
		gs.on(g, gangs.PlanDone{Lost: p.lost})
	}
}

// Failed notes that a member's attempt has failed, wherever.
func (gs *Groups) Failed(uid types.UID, why string) {
	if !gs.any.Load() {
		return
	}
	gs.mu.Lock()
	g := gs.of[uid]
	at := g.placeOf(uid)
	if at == nil {
		gs.mu.Unlock()
		return
	}
	gs.lose(g, at, why)
	gs.unlockAndLook(g)
}

// lose takes a member out of its plan: the others go on where they are enough, or have passed
// Permit. The caller holds the lock.
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
		gs.stirWaves()
	}
	if gs.on(g, gangs.Lost{Why: why, Enough: p.enough() && len(p.places) > 0, All: p.complete(), Before: before}).Release {
		go gs.allow(p.members())
	}
	gs.endIfDone(g)
}

// drop gives back what a plan has reserved. The caller holds the lock.
func (gs *Groups) drop(g *group, why string) {
	p := g.plan
	g.plan = nil
	p.forget()
	var waiting []types.UID
	for _, at := range p.places {
		at.deal()
		at.end()
		if at.arrived {
			waiting = append(waiting, at.uid)
		}
	}
	plansDropped.WithLabelValues(failedMember).Inc()
	gs.Logger.V(2).Info("Plan of a gang is dropped", "gang", g.key, "why", why)
	go gs.reject(waiting, why, maxRejects)
}

// Follow makes the members of a plan come one after another, with nobody in between: next is what
// takes a pod from the scheduling queue, take what takes a certain one. P is what the queue holds.
func Follow[L, P any](gs *Groups, next func(L) (*P, error), take func(L, *corev1.Pod) *P) func(L) (*P, error) {
	gs.mu.Lock()
	gs.follows = true
	gs.mu.Unlock()
	return func(logger L) (*P, error) {
		gs.Lead.Open()
		for pod := gs.nextMate(); pod != nil; pod = gs.nextMate() {
			if found := take(logger, pod); found != nil {
				return found, nil
			}
			// It is on its way back into the queue: it comes when it is there.
			gs.Activate(map[string]*corev1.Pod{pod.Namespace + "/" + pod.Name: pod})
		}
		return next(logger)
	}
}

// nextMate returns the next member to send for; nil for none.
func (gs *Groups) nextMate() *corev1.Pod {
	if !gs.any.Load() {
		return nil
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for len(gs.following) > 0 {
		p := gs.following[0]
		for p.group.plan == p && p.next < len(p.places) {
			at := p.places[p.next]
			p.next++
			if m := p.group.members[at.uid]; m != nil && !at.sent {
				at.sent = true
				return m.pod
			}
		}
		gs.following = gs.following[1:]
	}
	return nil
}
