package gang

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/gangs"
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
	if until := gs.shares.Until(pod.Namespace); gs.Clock.Now().Before(until) {
		defer gs.mu.Unlock()
		return Turn{Held: gs.holdUntil(g, pod, until)}
	}
	a := attempt{Groups: gs, group: g, pod: pod, job: gs.job(g, pod.UID), terms: profile.Terms}
	a.job.occupant = gs.Occupant
	gs.mu.Unlock()

	a.begun = gs.Clock.Now()
	a.result = a.job.try(ctx, profile)
	planDuration.Observe(gs.Clock.Now().Sub(a.begun).Seconds())
	return a.conclude()
}

// holdUntil holds a member until it may be tried. The caller holds the lock.
func (gs *Groups) holdUntil(g *group, pod *corev1.Pod, until time.Time) *fwk.Status {
	if g.settled() {
		gs.callAt(until, func() { gs.lookAlone(pod.UID) })
		m := g.members[pod.UID]
		m.NotBefore, gs.lone[pod.UID] = until, g
	} else {
		gs.on(g, gangs.Held{Until: until})
	}
	return notNow("gangs of namespace " + pod.Namespace + " have been tried without success, and have had their share of the scheduler's time")
}

// attempt is one try to place a group, or a pod that comes after its gang: the cycle of pod.
type attempt struct {
	*Groups
	group  *group
	pod    *corev1.Pod
	job    *job
	result *result
	begun  time.Time
	terms  Terms
}

// conclude reserves the plan, or notes why there is none.
func (a *attempt) conclude() Turn {
	r := a.result
	switch {
	case a.job.single && r.wrong != nil:
		return a.singleDoesNotFit(r.wrong.Message(), nil)
	case r.wrong != nil:
		return a.vain(r.wrong.Message(), failedInput)
	case r.Cut && a.job.single:
		return a.singleDoesNotFit(r.trial.tooDear(), nil)
	case r.Cut:
		return a.tooDear()
	case !r.Whole && a.job.single:
		return a.noPlaceBeside()
	case !r.Whole:
		return a.doesNotFit()
	}
	p, refused := a.job.reserve(a.group, r)
	if refused != "" {
		return a.vain(refused, failedChanged)
	}
	p.took = a.Clock.Now().Sub(a.begun)
	return a.begin(p)
}

// begin begins to carry a plan out that was reserved.
func (a *attempt) begin(p *planned) Turn {
	g := a.group
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.stillThere(g, p) {
		p.forget()
		return Turn{Held: notNow("a member left while its gang was planned")}
	}
	g.plan, g.kept = p, nil
	a.passed(true)
	a.on(g, gangs.PlanMade{Timeout: a.timeout(g)})
	p.deadline = g.Together
	a.following = append(a.following, p)
	plansMade.Inc()
	a.Logger.V(2).Info("Gang is planned", "gang", g.key, "members", len(p.places), "minimum", g.spec.Minimum)
	at := p.by[a.pod.UID]
	if at == nil {
		return Turn{Held: notNow(g.key.String() + " is being placed without this pod")}
	}
	at.sent = true
	if !a.follows {
		go a.Activate(a.job.named())
	}
	return Turn{Node: at.node}
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
		made := &place{
			uid: pod.UID, task: j.tasks[at.Member], node: r.trial.name(at.Node), account: account, wave: at.Wave,
			written: make(chan struct{}), over: make(chan struct{}),
		}
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

// vain notes that a group was tried in vain, and backs it off.
func (a *attempt) vain(why, reason string) Turn {
	held := notNow(why)
	plansDropped.WithLabelValues(reason).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pause()
	a.on(a.group, gangs.Failed{})
	a.tell(a.group, a.pod, held.Message())
	return Turn{Held: held}
}

// pause notes what the attempt has taken, and returns how long the gang is not tried, whatever
// changes. The caller holds the lock.
func (a *attempt) pause() time.Duration {
	now := a.Clock.Now()
	until := a.shares.Spend(a.pod.Namespace, now.Sub(a.begun), now)
	return max(gangs.ShortestPause, until.Sub(now))
}

// tooDear notes that a group asks for too much to be planned.
func (a *attempt) tooDear() Turn {
	plansDropped.WithLabelValues(failedBudget).Inc()
	why := a.result.trial.tooDear()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.group.kept = nil
	a.on(a.group, gangs.Misfit{Why: a.group.key.String() + ": " + why, Tried: a.job.stirs, Stirs: a.stirs, Pause: a.pause()})
	a.tell(a.group, a.pod, why)
	return Turn{Held: notNow(a.group.Why)}
}

// tooDear explains what the gang asks for that is too dear.
func (t *trial) tooDear() string {
	t.dear.Members, t.dear.Late = len(t.job.pods), t.budget.Late()
	t.dear.Kinds = max(t.dear.Kinds, len(t.kinds))
	t.dear.Terms = 0
	for _, k := range t.kinds {
		t.dear.Terms += terms(k.pod)
	}
	return t.dear.String()
}

// noPlaceBeside notes that a pod does not fit that comes after its gang.
func (a *attempt) noPlaceBeside() Turn {
	why := a.job.explain(a.result)
	a.mu.Lock()
	m := a.group.members[a.pod.UID]
	a.mu.Unlock()
	if m == nil { // it was deleted meanwhile
		return a.singleDoesNotFit(why, nil)
	}
	e, _, cut := a.room(&m.Wait)
	return a.singleDoesNotFit(why+cut, e)
}

// doesNotFit notes that a group does not fit. It is tried again when the cluster has changed.
func (a *attempt) doesNotFit() Turn {
	g, why := a.group, a.job.explain(a.result)
	e, waits, cut := a.room(&g.Wait)
	why += cut
	if e != nil {
		a.nominate(a.job, a.result.trial, e, a.pod.UID)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g.kept = nil
	if a.result.short == "" {
		a.passed(false)
	}
	misfit := gangs.Misfit{Tried: a.job.stirs, Stirs: a.stirs, Pause: a.pause()}
	if waits && e == nil {
		// A report will tell, and costs nobody anything: no back-off.
		why = "waits for nodes' next reports: " + why
		misfit.Why = g.key.String() + " " + why
		a.on(g, misfit)
		a.tell(g, a.pod, why)
		return Turn{Held: notNow(misfit.Why)}
	}
	plansDropped.WithLabelValues(failedCapacity).Inc()
	if misfit.Lacking = e == nil; e == nil {
		a.keepsNothing(g.key)
	} else {
		why += "; it " + e.text()
		g.keep(a.job, e, a.pod.UID)
		a.sendAway(e.victims, g.key.String())
	}
	why = "does not fit: " + why
	misfit.Why = g.key.String() + " " + why
	a.on(g, misfit)
	a.tell(g, a.pod, why)
	return Turn{Held: fwk.NewStatus(fwk.Unschedulable, "Berth: "+misfit.Why)}
}

// passed notes that the group was let in, and if planned that it gets its first nodes. The caller
// holds the lock.
func (a *attempt) passed(planned bool) {
	g := a.group
	g.letIn, g.shut = true, ""
	if len(g.spec.Resources) == 0 || g.Whole || a.terms.Admission.Gate == gangs.GateNone || !g.key.Source.HasObject() {
		return
	}
	keep := a.terms.Admission.KeepFor.Duration
	if !planned {
		keep = 0 // it is planned whole or not at all, so that others may go first
	}
	a.admit(g.key, admission{asked: wire.ReadResources(g.spec.Resources), placed: planned}, keep)
}

// room says who would have to go for what does not fit, and whether nodes' reports could show room:
// that is not awaited for ever. cut says that the search for victims found nobody
// before it was cut off.
func (a *attempt) room(w *gangs.Wait) (e *eviction, waits bool, cut string) {
	if a.result.short != "" {
		return nil, false, ""
	}
	waits = a.result.hopes()
	a.mu.Lock()
	patient := w.Patient(waits, a.Clock.Now())
	a.mu.Unlock()
	if patient {
		return nil, waits, ""
	}
	e, stopped := a.evict(a.job, a.result.trial)
	if e == nil && stopped {
		cut = "; " + searchCut
	}
	return e, waits, cut
}

// singleDoesNotFit notes that a pod has no place beside its gang, which has its minimum. Others
// that come after it are not kept waiting. Those are evicted without whom it fits; nil for none.
func (a *attempt) singleDoesNotFit(why string, e *eviction) Turn {
	g, pod := a.group, a.pod
	a.mu.Lock()
	defer a.mu.Unlock()
	why = "pod " + pod.Name + " comes after its gang, and asks about its mates' NUMA nodes: " + why
	nominated := ""
	if e != nil {
		why += "; it " + e.text()
		nominated = e.nodes[pod.UID]
		a.sendAway(e.victims, "pod "+pod.Namespace+"/"+pod.Name)
	}
	if m := g.members[pod.UID]; m != nil {
		now, pause := a.Clock.Now(), a.pause()
		m.Begin(&gangs.Misfit{Why: why, Tried: a.job.stirs, Stirs: a.stirs, Pause: pause}, now)
		m.nominated, a.lone[pod.UID] = nominated, g
		for _, pause := range []time.Duration{pause, gangs.LongestWait} {
			a.callAt(now.Add(pause), func() { a.lookAlone(pod.UID) })
		}
	}
	a.tell(g, pod, why)
	return Turn{Held: fwk.NewStatus(fwk.Unschedulable, "Berth: "+why)}
}
