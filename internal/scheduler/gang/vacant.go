package gang

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// Volcano's controller and the operators of Kubeflow, Paddle and others create the pods of a group
// only after the group has left the phase Pending. So Berth admits a group whose pods are missing,
// or writes into its status why it does not. While a group has no pods, only its Job names a
// scheduler, because a PodGroup has no field for it. A group that has neither pods nor a Job
// belongs to the scheduler that serves the scheduler name volcano.

// vacantEvery is the usual time between two runs of lookAtVacant.
const vacantEvery = 2 * time.Second

// volcanoScheduler is the scheduler name that users of Volcano write into pods.
const volcanoScheduler = "volcano"

// vacancy is a group that waits to be admitted while its pods are missing.
type vacancy struct {
	spec  wire.Gang
	wrong error
	// looked is the value of admitter.vacantLooks at the last check of the group.
	looked int
	// known has the results of earlier checks. Only lookAtVacant changes it.
	known *known
}

// known has the results of earlier checks of a group without enough pods.
type known struct {
	// scheduler is the name of the group's scheduler, or "" if the Job was not read yet. classes
	// are the PriorityClasses that the group's pods will name, "" for none. named are the classes
	// that these pods will have: the default class in place of "". priority is the group's
	// priority. never means that its pods do not preempt (preemptionPolicy).
	scheduler      string
	classes, named []string
	priority       int32
	never          bool
	// standard is the priority of pods without a PriorityClass.
	standard int32
	// told is the last reported reason why the group is not admitted. toldAt is the time of the
	// report.
	told   string
	toldAt time.Time
}

// vacantSeen records the object of a group that has no pods. The caller holds the lock.
func (t *admitter) vacantSeen(spec wire.Gang, wrong error) {
	if !gangs.NotLetIn(spec.Phase) && wrong == nil {
		t.wasLetIn(nil, &spec)
	}
	t.wait(spec, wrong)
}

// atGate adds the group to t.vacant if the group has minResources, lacks pods and waits to be
// admitted. In all other cases, atGate removes the group from t.vacant. The caller holds the lock.
func (t *admitter) atGate(g *group) {
	if g.object == "" || g.letIn || g.wrong != nil || len(g.spec.Resources) == 0 || g.lacks(&g.waiting, &g.done) == "" {
		delete(t.vacant, g.key)
		g.shut = ""
		return
	}
	t.wait(g.spec, nil)
}

// wait adds a group of Volcano to t.vacant if the group's phase shows that it waits to be admitted.
// In all other cases, wait removes the group from t.vacant. The caller holds the lock.
func (t *admitter) wait(spec wire.Gang, wrong error) {
	if spec.Key.Source != wire.GangOfVolcano || !gangs.NotLetIn(spec.Phase) || t.book.Room == nil {
		delete(t.vacant, spec.Key)
		return
	}
	was, now := t.vacant[spec.Key], vacancy{spec: spec, wrong: wrong, known: new(known)}
	if was.known != nil && was.spec.UID == spec.UID && was.spec.Job == spec.Job && was.spec.PriorityClass == spec.PriorityClass {
		now.known, now.looked = was.known, was.looked
	}
	t.vacant[spec.Key] = now
	t.lookAtVacantIn(statusPause)
}

// wasLetIn records that a group is admitted, because the phase of the group's object shows the
// admission. g is nil if the group has no pods. The caller holds the lock.
func (b *admitter) wasLetIn(g *group, spec *wire.Gang) {
	scheduler := volcanoScheduler
	if g != nil {
		scheduler = g.scheduler()
	}
	terms := b.book.terms(scheduler)
	if len(spec.Resources) == 0 || spec.Phase == string(volcano.PodGroupCompleted) || terms.Admission.Gate == gangs.GateNone {
		return
	}
	a := admission{asked: wire.ReadResources(spec.Resources), unchecked: true, placed: g != nil && g.hasPlaced()}
	if was := b.admitted[spec.Key]; was != nil {
		a.asked, a.unchecked = was.asked, was.unchecked
	}
	b.admit(spec.Key, a, terms.Admission.KeepFor.Duration)
}

// scheduler returns the spec.schedulerName of an active member, or volcanoScheduler if there is
// none.
func (g *group) scheduler() string {
	for name := range g.schedulers {
		return name
	}
	return volcanoScheduler
}

func (b *book) terms(scheduler string) (t Terms) {
	if b.Terms != nil {
		t = b.Terms(scheduler)
	}
	t.Admission.FillIn()
	return t
}

// vacantShare is the maximum number of groups of one namespace that one run of lookAtVacant checks,
// because the check of a group may need requests to the API server. Without this maximum, a tenant
// with thousands of groups would delay the groups of all other tenants.
const vacantShare = 64

// lookAtVacantIn schedules lookAtVacant after the pause, unless it is already scheduled, there is
// nothing to check, or this process does not lead. The caller holds the lock.
func (t *admitter) lookAtVacantIn(pause time.Duration) {
	if t.lookingAtVacant || len(t.vacant) == 0 || !t.book.Lead.Leads() {
		return
	}
	t.lookingAtVacant = true
	t.book.callAt(t.book.Clock.Now().Add(pause), t.lookAtVacant)
}

// lookAtVacant admits groups whose minResources are free or could be freed by evictions, one after
// another: the group with the highest priority first, and among groups of equal priority the group
// with the oldest last check. It then schedules its next run. The pause is short if this run
// removed groups from t.vacant, but did not check all groups.
func (t *admitter) lookAtVacant() {
	t.book.mu.Lock()
	waiting := maps.Clone(t.vacant)
	t.book.mu.Unlock()
	now := inShares(waiting)
	l := &look{admitter: t}
	asked := slices.DeleteFunc(slices.Clone(now), func(key wire.GangKey) bool { return !l.find(waiting[key]) })
	slices.SortStableFunc(asked, func(a, b wire.GangKey) int {
		return cmp.Compare(waiting[b].known.priority, waiting[a].known.priority)
	})
	for _, key := range asked {
		l.letIn(waiting[key])
	}
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	t.vacantLooks++
	pause := max(vacantEvery, 10*l.counted)
	for _, key := range now {
		if v, still := t.vacant[key]; still {
			v.looked = t.vacantLooks
			t.vacant[key] = v
		} else if len(now) < len(waiting) {
			pause = statusPause
		}
	}
	t.lookingAtVacant = false
	t.lookAtVacantIn(pause)
}

// inShares returns the groups to check: up to vacantShare groups of each namespace, the groups with
// the oldest last check first.
func inShares(waiting map[wire.GangKey]vacancy) (now []wire.GangKey) {
	order := slices.SortedFunc(maps.Keys(waiting), func(a, b wire.GangKey) int {
		return cmp.Or(cmp.Compare(waiting[a].looked, waiting[b].looked), cmp.Compare(a.String(), b.String()))
	})
	count := map[string]int{}
	for _, key := range order {
		if count[key.Namespace]++; count[key.Namespace] <= vacantShare {
			now = append(now, key)
		}
	}
	return now
}

// look is one check of groups that do not have enough pods.
type look struct {
	admitter *admitter
	// room has the resources of all nodes; nil means that they were not counted yet. counted is the
	// time that the count took.
	room    *gangfit.Room
	counted time.Duration
	// classes has all PriorityClasses, and the default class also under "". classes is nil if the
	// PriorityClasses were not read yet.
	classes map[string]*schedulingv1.PriorityClass
}

// find fills in the scheduler and the priority of v.known. It returns false if the group belongs to
// another scheduler, or if the group's Job cannot be read.
func (l *look) find(v vacancy) bool {
	l.admitter.book.mu.Lock()
	g := l.admitter.book.groups[v.spec.Key]
	if g != nil {
		v.known.scheduler, v.known.priority, v.known.never = g.scheduler(), g.lowest(0), !gangs.MayPreempt(g.activePods())
	}
	l.admitter.book.mu.Unlock()
	k := v.known
	if k.scheduler == "" && v.spec.Job == "" {
		k.scheduler, k.classes = volcanoScheduler, []string{v.spec.PriorityClass}
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if k.scheduler == "" {
		job, err := l.admitter.book.Objects.JobOf(ctx, v.spec.Key.Namespace, v.spec.Job)
		if err != nil {
			if !isGone(err) {
				l.admitter.book.Logger.Info("The Job of a group without pods cannot be read, will try again", "gang", v.spec.Key, "job", v.spec.Job, "err", err)
			}
			return false
		}
		k.scheduler, k.classes = job.Scheduler, job.Classes
	}
	if !l.admitter.book.Ours(k.scheduler) {
		return false
	}
	if g == nil {
		l.price(ctx, k)
	}
	return true
}

// price sets the priority of a group without pods: the lowest value of the PriorityClasses in
// k.classes; "" names the default class, which may change between two looks. A missing class counts
// as 0, because the API server will refuse pods that name it. price sets k.named, and k.never if a
// class has the preemptionPolicy Never.
func (l *look) price(ctx context.Context, k *known) {
	if l.classes == nil && l.admitter.book.Client != nil {
		list, err := l.admitter.book.Client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			l.admitter.book.Logger.Info("PriorityClasses cannot be read: groups without pods are admitted as if they had no priority", "err", err)
			list = &schedulingv1.PriorityClassList{}
		}
		l.classes = map[string]*schedulingv1.PriorityClass{}
		for i := range list.Items {
			c := &list.Items[i]
			if l.classes[c.Name] = c; c.GlobalDefault {
				l.classes[""] = c
			}
		}
	}
	k.never, k.named = false, nil
	for i, name := range k.classes {
		c := cmp.Or(l.classes[name], &schedulingv1.PriorityClass{})
		k.named = append(k.named, cmp.Or(name, c.Name))
		k.never = k.never || c.PreemptionPolicy != nil && *c.PreemptionPolicy == corev1.PreemptNever
		if i == 0 || c.Value < k.priority {
			k.priority = c.Value
		}
	}
	k.standard = cmp.Or(l.classes[""], &schedulingv1.PriorityClass{}).Value
}

// letIn admits a group. If the group's object is wrong, or the admission gate finds too few
// resources for the minResources, letIn instead writes the reason into the group's status.
// writeVacant does the same if the group's Queue is closed.
func (l *look) letIn(v vacancy) {
	key := v.spec.Key
	if v.wrong != nil {
		l.shut(v, v.wrong.Error())
		return
	}
	terms := l.admitter.book.terms(v.known.scheduler)
	gated := len(v.spec.Resources) > 0 && terms.Admission.Gate != gangs.GateNone
	if gated {
		short, err := l.admitIfThere(v, &terms)
		if err != nil {
			l.admitter.book.Logger.Info("Cannot count the free resources for a group without pods, will try again", "gang", key, "err", err)
			return
		}
		if short != nil {
			l.shut(v, short.String())
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	closed, err := l.admitter.writeVacant(ctx, &v.spec)
	if g := l.record(v, gated, closed, err); g != nil {
		l.admitter.tellStatus(g) // a write that began earlier may have put the old phase back
	}
}

// record records the result of writeVacant. If the group is admitted and has pods, record returns
// the group.
func (l *look) record(v vacancy, gated, closed bool, err error) (in *group) {
	key := v.spec.Key
	l.admitter.book.mu.Lock()
	defer l.admitter.book.mu.Unlock()
	switch {
	case err != nil || closed:
		if err != nil && !isGone(err) {
			l.admitter.book.Logger.Info("Group without pods cannot be admitted, will try again", "gang", key, "err", err)
		}
		if a := l.admitter.admitted[key]; gated && a != nil && !a.placed {
			delete(l.admitter.admitted, key)
		}
		if err == nil || !isGone(err) {
			return nil // the group stays in admitter.vacant, because its Queue may be opened
		}
	default:
		if in = l.admitter.book.groups[key]; in != nil {
			in.letIn, in.shut = true, ""
		}
	}
	if l.admitter.vacant[key].spec.Version == v.spec.Version {
		delete(l.admitter.vacant, key)
	}
	return in
}

// admitIfThere admits the group if its minResources are free or evictions could free them.
// Otherwise it returns the shortage.
func (l *look) admitIfThere(v vacancy, terms *Terms) (*gangfit.Shortage, error) {
	if l.room == nil {
		begun := l.admitter.book.Clock.Now()
		room, err := l.admitter.book.Room()
		if err != nil {
			return nil, err
		}
		l.room, l.counted = room, l.admitter.book.Clock.Now().Sub(begun)
	}
	asked := wire.ReadResources(v.spec.Resources)
	l.admitter.book.mu.Lock()
	defer l.admitter.book.mu.Unlock()
	if l.admitter.holds(v.spec.Key) {
		return nil, nil //nolint:nilnil // nothing is missing
	}
	g := l.admitter.book.groups[v.spec.Key]
	c := &gangfit.Claim{
		Asked: g.unused(asked, false), Kept: l.admitter.keptFrom(v.spec.Key, v.known.priority, false), Priority: v.known.priority,
		EvictsNobody: terms.EvictsNobody || v.known.never, Overcommit: terms.Admission.OvercommitFactor,
	}
	if l.admitter.book.Countable != nil {
		c.Asked = l.admitter.book.Countable(c.Asked)
	}
	short := l.room.Short(c)
	if short == nil {
		l.admitter.admit(v.spec.Key, admission{asked: asked, priority: v.known.priority, foreign: min(v.known.priority, v.known.standard), classes: v.known.named}, terms.Admission.KeepFor.Duration)
	}
	return short, nil
}

// tellVacantEvery is the minimum time between two reports of different reasons why a group is not
// admitted. Without it, each change of the free amounts would be reported.
const tellVacantEvery = time.Minute

// shut writes the reason why a group is not admitted into the group's status and into an event.
func (l *look) shut(v vacancy, why string) {
	now := l.admitter.book.Clock.Now()
	if v.known.told == why || v.known.told != "" && now.Sub(v.known.toldAt) < tellVacantEvery {
		return
	}
	l.admitter.book.mu.Lock()
	g := l.admitter.book.groups[v.spec.Key]
	if g != nil {
		g.shut = why
	}
	l.admitter.book.mu.Unlock()
	if g != nil {
		l.admitter.tellStatus(g)
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		if _, err := l.admitter.book.Objects.Write(ctx, v.spec.Key, standing{phase: volcano.PodGroupPending, lacking: why}); err != nil {
			if !isGone(err) {
				l.admitter.book.Logger.Info("Cannot write why a group without pods waits, will try again", "gang", v.spec.Key, "err", err)
			}
			return
		}
	}
	v.known.told, v.known.toldAt = why, now
	l.admitter.book.Events.Eventf(referenceTo(v.spec.Key, v.spec.UID, v.spec.Version), nil, corev1.EventTypeWarning, "GangNotPlaced", "Scheduling", "%s", why)
}

// writeVacant writes into a group's status that the group is admitted. If the group's Queue is
// closed or closing, writeVacant writes that the group waits for the Queue. Volcano's scheduler
// ignores groups in a closed Queue (pkg/scheduler/actions/allocate).
func (t *admitter) writeVacant(ctx context.Context, spec *wire.Gang) (closed bool, err error) {
	state, err := t.book.Objects.QueueState(ctx, spec.Queue)
	if err != nil {
		return false, err
	}
	now := standing{phase: volcano.PodGroupInqueue}
	if closed = state == queueClosed || state == queueClosing; closed {
		now = standing{phase: volcano.PodGroupPending, lacking: fmt.Sprintf("queue %q is %s: open it, or name another", spec.Queue, state)}
	}
	_, err = t.book.Objects.Write(ctx, spec.Key, now)
	return closed, err
}

// In these states, a Volcano Queue accepts no Job.
const (
	queueClosed  = "Closed"
	queueClosing = "Closing"
)

// QueueState implements Objects.
func (o *APIObjects) QueueState(ctx context.Context, queue string) (string, error) {
	if queue == "" {
		return "", nil
	}
	var read struct {
		Status struct {
			State string `json:"state"`
		} `json:"status"`
	}
	err := o.read(ctx, volcano.GroupVersion, "", "queues", queue, &read)
	if apierrors.IsNotFound(err) {
		return "", nil // the Queue or its kind does not exist: Berth does not define Queues
	}
	return read.Status.State, err
}

// read reads an object of Volcano into *into. Tenants choose the name, but cannot change the
// request path with it, because the REST client accepts only a valid path segment
// (IsValidPathSegmentName).
func (o *APIObjects) read(ctx context.Context, version schema.GroupVersion, namespace, resource, name string, into any) error {
	c, err := o.client(wire.GangOfVolcano)
	if err != nil {
		return err
	}
	get := c.Get().AbsPath("/apis", version.String()).NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name)
	data, err := get.DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Job has the settings that the pods of a Job of batch.volcano.sh will have.
type Job struct {
	Scheduler string
	// Classes has the PriorityClass of each of the Job's tasks; "" means none.
	Classes []string
}

// JobOf implements Objects.
func (o *APIObjects) JobOf(ctx context.Context, namespace, name string) (Job, error) {
	var read struct {
		Spec struct {
			SchedulerName     string `json:"schedulerName"`
			PriorityClassName string `json:"priorityClassName"`
			Tasks             []struct {
				Template struct {
					Spec struct {
						PriorityClassName string `json:"priorityClassName"`
					} `json:"spec"`
				} `json:"template"`
			} `json:"tasks"`
		} `json:"spec"`
	}
	if err := o.read(ctx, wire.JobVersion, namespace, "jobs", name, &read); err != nil {
		return Job{}, err
	}
	out := Job{Scheduler: cmp.Or(read.Spec.SchedulerName, volcanoScheduler)}
	for i := range read.Spec.Tasks {
		out.Classes = append(out.Classes, cmp.Or(read.Spec.Tasks[i].Template.Spec.PriorityClassName, read.Spec.PriorityClassName))
	}
	if len(out.Classes) == 0 {
		out.Classes = []string{read.Spec.PriorityClassName}
	}
	return out, nil
}
