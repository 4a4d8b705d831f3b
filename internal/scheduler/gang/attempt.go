package gang

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Turn is the result of Groups.PreFilter for a member.
type Turn struct {
	// Node is the member's planned node. It is "" if the scheduler places the member like a pod
	// without a gang, or does not try it.
	Node string
	// Held is the reason why the scheduler does not try the member, or nil.
	Held *fwk.Status
}

// PreFilter returns the Turn of a member. The call for the leader of a ready group plans all
// members. PreFilter plans with copies of the data, and holds no lock while it plans.
func (gs *Groups) PreFilter(ctx context.Context, profile Profile, pod *corev1.Pod) Turn {
	if !wire.InGang(pod) {
		return Turn{}
	}
	gs.book.mu.Lock()
	turn, a := gs.turn(pod)
	gs.book.mu.Unlock()
	if a == nil {
		return turn
	}
	r := a.job.try(ctx, profile)
	planDuration.Observe(gs.book.Clock.Now().Sub(a.begun).Seconds())
	o := a.outcome(r)
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
	return gs.conclude(a, o)
}

// turn returns the Turn of a member, or an attempt that must be made first. It checks the group's
// state again, because PreEnqueue does not check a pod again when its back-off ends. The caller
// holds the lock.
func (gs *Groups) turn(pod *corev1.Pod) (Turn, *attempt) {
	g := gs.book.of[pod.UID]
	if g == nil {
		return Turn{Held: notNow(unseen)}, nil
	}
	if at := g.placeOf(pod.UID); at != nil {
		return Turn{Node: at.node}, nil
	}
	if why := gs.book.gate(g, pod.UID); why != "" {
		return Turn{Held: notNow(why)}, nil
	}
	now := gs.book.Clock.Now()
	if m := g.members[pod.UID]; g.settled() {
		if why := gs.awaited(g, m); why != "" {
			m.Begin(&gangs.Misfit{Why: why, Tried: gs.book.stirs, Stirs: gs.book.stirs}, now)
			gs.lone[pod.UID] = g
			return Turn{Held: notNow(why)}, nil
		}
		if !g.asksOf(pod) {
			return Turn{}, nil
		}
	}
	if until := gs.book.shares.Until(pod.Namespace); now.Before(until) {
		return Turn{Held: gs.holdUntil(g, pod, until)}, nil
	}
	a := &attempt{group: g, pod: pod, job: gs.book.job(g, pod.UID), begun: now}
	if !a.job.single {
		a.job.gang.Claim, a.admits = gs.admitter.claim(g)
	}
	a.job.others, a.job.patient = gs.evictor, func(reports bool) bool { return gs.patient(a, reports) }
	return Turn{}, a
}

// holdUntil records that the pod must not be tried before the given time. If the pod is not a late
// member, its whole group must not be tried before that time. It returns the status for the
// member's cycle. The caller holds the lock.
func (gs *Groups) holdUntil(g *group, pod *corev1.Pod, until time.Time) *fwk.Status {
	if g.settled() {
		gs.book.callAt(until, func() { gs.lookAlone(pod.UID) })
		m := g.members[pod.UID]
		m.NotBefore, gs.lone[pod.UID] = until, g
	} else {
		gs.on(g, gangs.Held{Until: until})
	}
	return notNow("unsuccessful attempts to place gangs of namespace " + pod.Namespace + " have used up the namespace's share of the scheduler's time")
}

// patient reports whether evictions for an unsuccessful attempt must wait, because the next reports
// of nodes may show free resources. The parameter reports means that the attempt found nodes that
// wait for a report. gangs.Wait limits the waiting time.
func (gs *Groups) patient(a *attempt, reports bool) bool {
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
	wait, m := &a.group.Wait, a.group.members[a.pod.UID]
	if a.job.single {
		if m == nil { // the pod was deleted meanwhile
			return true
		}
		wait = &m.Wait
	}
	return wait.Patient(reports, gs.book.Clock.Now())
}

// attempt is one attempt to place a group or a late member, in the scheduling cycle of its pod. A
// late member is placed after its gang has its minimum. Only methods of Groups change the group.
type attempt struct {
	group *group
	pod   *corev1.Pod
	job   *job
	begun time.Time
	// admits are the minResources with which the group is admitted if the admission gate
	// (gangs.Admission.Gate) does not stop the attempt; nil means none.
	admits amounts.List
}

// job is the input of a trial. job has copies of the book's data, so that the trial needs no lock.
type job struct {
	gangs.Asked
	gang  gangfit.Question
	stirs uint64
	terms Terms
	// single means that the job is for a late member. modest means that the plan is only for the
	// gang's minimum (book.rivals).
	single, modest bool
	// others answers questions about pods outside of the gang. patient calls Groups.patient for
	// this attempt.
	others  others
	patient func(reports bool) bool
}

// others answers questions about pods on nodes that may be evicted for the gang.
type others interface {
	// Occupant returns the properties of a running pod that decide whether another pod may evict
	// it. The field Asks is not set.
	Occupant(pod *corev1.Pod) gangfit.Occupant
	// surplus returns the UIDs of the members that a gang does not need for its minimum. The
	// parameter has the gang's members on nodes, in the order in which the gang keeps them.
	surplus(members []*corev1.Pod) map[types.UID]bool
	budgets() []*policyv1.PodDisruptionBudget
}

type result struct {
	*gangfit.Verdict
	trial *trial
	// wrong is the reason why the trial could not be made, or nil. If wrong is set, Verdict and
	// trial are nil.
	wrong *fwk.Status
}

// outcome is the result of an attempt: a reserved plan, or the reason why there is none.
type outcome struct {
	plan *planned
	// why is the reason why there is no plan. failed is the value of the label reason of the metric
	// gang_plans_dropped_total. failed is "" if there is a plan, or if the next reports of nodes
	// may show room.
	failed, why string
	// evicts has the victims for the members, or is nil if no pod is evicted.
	evicts *eviction
	// asked means that the admission gate did not stop the attempt: the group's minResources, if it
	// has any, are free or could be freed by evictions, or the profile has no gate.
	asked bool
}

// outcome turns the result of the attempt's trial into an outcome. If the plan reaches the minimum,
// outcome reserves it.
func (a *attempt) outcome(r *result) *outcome {
	switch {
	case r.wrong != nil:
		return &outcome{failed: failedInput, why: r.wrong.Message()}
	case r.Cut:
		return &outcome{failed: failedBudget, why: r.Dear.String()}
	case !r.Whole:
		return a.doesNotFit(r)
	}
	return a.job.reserve(a.group, r)
}

// doesNotFit returns the outcome for members that do not fit: the reason, and the pods to evict. If
// there are pods to evict for a group, it also nominates the group's members, except the leader, to
// the nodes that they get after the eviction.
func (a *attempt) doesNotFit(r *result) *outcome {
	o := &outcome{failed: failedCapacity, why: a.job.explain(r), asked: r.Short == nil}
	waits := r.Hopes()
	if r.Short == nil && !a.job.patient(waits) {
		e, stopped := a.job.evict(r)
		if o.evicts = e; e == nil && stopped {
			o.why += "; " + searchCut
		}
	}
	switch {
	case o.evicts != nil:
		o.why += "; it " + o.evicts.text()
		if !a.job.single {
			a.job.nominate(r.trial, o.evicts, a.pod.UID)
		}
	case waits: // a report may show free resources
		o.failed = ""
	}
	return o
}

// reserve reserves the whole plan. If a node now refuses a member, or if a decision cannot be
// written, reserve releases all reservations of the plan.
func (j *job) reserve(g *group, r *result) *outcome {
	p := &planned{group: g, by: map[types.UID]*place{}, alone: make(chan struct{})}
	places := r.Places
	if j.modest {
		places = j.least(r)
	}
	for _, at := range places {
		account := r.trial.Account(at.Node)
		pod, c := j.Pods[at.Member], at.Candidate
		if c == nil {
			account = nil
		}
		made := &place{
			uid: pod.UID, task: j.Tasks[at.Member], node: r.trial.name(at.Node), account: account, wave: at.Wave,
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
			return &outcome{failed: failedChanged, why: fmt.Sprintf("node %s changed while the gang was being planned", made.node)}
		}
		if err := r.trial.profile.Check(pod, &d); err != nil {
			p.forget()
			return &outcome{failed: failedInput, why: "Berth cannot write the placement: " + err.Error()}
		}
	}
	inTurn(p.places)
	if p.last = closing(p.places); len(p.places) == 1 {
		close(p.alone)
	}
	return &outcome{plan: p}
}

// least returns the places that the gang needs for its minimum, in the order of the plan. If it
// keeps a place, it also keeps the earlier places on the node, because the node's answer may depend
// on them. If some kind is coupled, it keeps all earlier places.
func (j *job) least(r *result) (out []plan.Place) {
	spare, spareOf, kept := len(r.Places)-j.gang.Minimum, map[string]int{}, map[int]bool{}
	for _, at := range r.Places {
		spareOf[j.Tasks[at.Member]]++
	}
	for task, n := range j.gang.Tasks {
		spareOf[task] -= n
	}
	for _, at := range slices.Backward(r.Places) {
		task, needed := j.Tasks[at.Member], kept[at.Node] || r.trial.coupled > 0 && len(kept) > 0
		if !needed && spare > 0 && spareOf[task] > 0 {
			spare--
			spareOf[task]--
			continue
		}
		kept[at.Node] = true
		out = append(out, at)
	}
	slices.Reverse(out)
	return out
}

// conclude applies the outcome of an attempt to its group. The caller holds the lock.
func (gs *Groups) conclude(a *attempt, o *outcome) Turn {
	switch {
	case o.plan != nil:
		return gs.carryOut(a, o.plan)
	case o.failed == failedChanged || o.failed == failedInput && !a.job.single:
		plansDropped.WithLabelValues(o.failed).Inc()
		held, pause := notNow(o.why), gs.pause(a)
		if o.failed == failedChanged { // no member has failed, and the next plan sees the change
			gs.on(a.group, gangs.Held{Until: gs.book.Clock.Now().Add(pause)})
		} else {
			gs.on(a.group, gangs.Failed{})
		}
		gs.teller.tell(a.group, a.pod, held.Message())
		return Turn{Held: held}
	case a.job.single:
		return gs.noPlaceBeside(a, o)
	}
	return gs.misfit(a, o)
}

// carryOut makes a reserved plan the plan of its group. If the plan has become invalid meanwhile,
// for example because a member left, carryOut releases it instead. The caller holds the lock.
func (gs *Groups) carryOut(a *attempt, p *planned) Turn {
	g := a.group
	if !gs.book.stillThere(g, p) {
		p.forget()
		return Turn{Held: notNow("a member left while its gang was planned")}
	}
	p.took = gs.book.Clock.Now().Sub(a.begun)
	g.plan, g.kept = p, nil
	gs.passed(a, a.job.terms.Admission.KeepFor.Duration)
	gs.on(g, gangs.PlanMade{Timeout: gs.book.timeout(g)})
	p.deadline = g.Together
	gs.following = append(gs.following, p)
	plansMade.Inc()
	gs.book.Logger.V(2).Info("Gang is planned", "gang", g.key, "members", len(p.places), "minimum", g.spec.Minimum)
	at := p.by[a.pod.UID]
	if at == nil {
		return Turn{Held: notNow(g.key.String() + " is being placed without this pod")}
	}
	at.sent = true
	if !gs.follows {
		go gs.book.send(a.job.Pods...)
	}
	return Turn{Node: at.node}
}

// misfit records that a group does not fit, or is too expensive to plan. The group then waits for a
// change of the cluster, but at most for gangs.LongestWait. The caller holds the lock.
func (gs *Groups) misfit(a *attempt, o *outcome) Turn {
	g, why := a.group, o.why
	g.kept = nil
	if o.asked {
		gs.passed(a, 0) // no resources are kept, because the gang is planned as a whole later
	}
	m := gangs.Misfit{Tried: a.job.stirs, Stirs: gs.book.stirs, Pause: gs.pause(a), Lacking: o.failed == failedCapacity && o.evicts == nil}
	switch o.failed {
	case failedBudget:
		m.Why = g.key.String() + ": " + why
	case failedCapacity:
		why = "does not fit: " + why
		m.Why = g.key.String() + " " + why
	default:
		why = "waits for nodes' next reports: " + why
		m.Why = g.key.String() + " " + why
	}
	if o.failed != "" {
		plansDropped.WithLabelValues(o.failed).Inc()
	}
	if m.Lacking {
		gs.admitter.keepsNothing(g.key)
	}
	if e := o.evicts; e != nil {
		g.keep(a.job, e, a.pod.UID)
		gs.evictor.sendAway(e.victims, g.key.String())
	}
	gs.on(g, m)
	gs.teller.tell(g, a.pod, why)
	if o.failed == failedCapacity {
		return Turn{Held: fwk.NewStatus(fwk.Unschedulable, "Berth: "+m.Why)}
	}
	return Turn{Held: notNow(m.Why)}
}

// noPlaceBeside records that a late member does not fit. The scheduler still tries other late
// members of the gang. The caller holds the lock.
func (gs *Groups) noPlaceBeside(a *attempt, o *outcome) Turn {
	g, pod := a.group, a.pod
	why := "pod " + pod.Name + " is placed after its gang, and its place depends on the NUMA nodes of other members: " + o.why
	nominated := ""
	if e := o.evicts; e != nil {
		nominated = e.nodes[pod.UID]
		gs.evictor.sendAway(e.victims, "pod "+pod.Namespace+"/"+pod.Name)
	}
	if m := g.members[pod.UID]; m != nil {
		now, pause := gs.book.Clock.Now(), gs.pause(a)
		m.Begin(&gangs.Misfit{Why: why, Tried: a.job.stirs, Stirs: gs.book.stirs, Pause: pause}, now)
		m.nominated, gs.lone[pod.UID] = nominated, g
		for _, pause := range []time.Duration{pause, gangs.LongestWait} {
			gs.book.callAt(now.Add(pause), func() { gs.lookAlone(pod.UID) })
		}
	}
	gs.teller.tell(g, pod, why)
	return Turn{Held: fwk.NewStatus(fwk.Unschedulable, "Berth: "+why)}
}

// pause charges the duration of an unsuccessful attempt to the pod's namespace. It returns the time
// for which the gang or the late member is not tried, even if the cluster changes. The caller holds
// the lock.
func (gs *Groups) pause(a *attempt) time.Duration {
	now := gs.book.Clock.Now()
	until := gs.book.shares.Spend(a.pod.Namespace, now.Sub(a.begun), now)
	return max(gangs.ShortestPause, until.Sub(now))
}

// passed records that a group is admitted. If the attempt checked its minResources, they are kept
// for the group for the duration keep. The caller holds the lock.
func (gs *Groups) passed(a *attempt, keep time.Duration) {
	g := a.group
	g.letIn, g.shut = true, ""
	if len(a.admits) > 0 && !g.Whole && a.job.terms.Admission.Gate != gangs.GateNone && g.key.Source.HasObject() {
		gs.admitter.admit(g.key, admission{asked: a.admits, placed: g.plan != nil}, keep)
	}
}
