package gang

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
)

// seated is a pod on a node of the trial.
type seated struct {
	node int
	body fwk.PodInfo
}

// eviction is what it takes for a group to fit.
type eviction struct {
	// victims have to be evicted, leaving is how many are on their way out.
	victims []*corev1.Pod
	leaving int
	// nodes are where members would go then.
	nodes map[types.UID]string
	// cut says that the search was cut off: fewer victims may do.
	cut bool
}

// crowd is a trial whose nodes can be cleared of pods. It implements plan.Crowd.
type crowd struct {
	*trial
	pods [][]seated // of each victim
}

var _ plan.Crowd = (*crowd)(nil)

// Evict implements plan.Crowd.
func (c *crowd) Evict(victim int) {
	c.changed()
	for _, s := range c.pods[victim] {
		on := c.copied(s.node)
		c.budget.Spend(putLooks + len(c.kinds)/2)
		if on.RemovePod(klog.FromContext(c.ctx), s.body.GetPod()) != nil {
			continue // it was not there
		}
		for _, k := range c.kinds {
			c.profile.Handle.RunPreFilterExtensionRemovePod(c.ctx, k.state, k.pod, s.body, on)
		}
	}
}

// Restore implements plan.Crowd.
func (c *crowd) Restore(victim int) {
	for _, s := range c.pods[victim] {
		on := c.copied(s.node)
		on.AddPodInfo(s.body)
		for _, k := range c.kinds {
			c.profile.Handle.RunPreFilterExtensionAddPod(c.ctx, k.state, k.pod, s.body, on)
		}
	}
}

// maxCleared is how many nodes are thought of as cleared at least, beside as many again as the gang
// has members: as with kube-scheduler's candidates, not every node of a large cluster.
const maxCleared = 100

// evict finds whom the group needs gone to fit whole; nil where evicting does not help, or where
// nobody was found before the search was cut off.
func (gs *Groups) evict(j *job, t *trial) (e *eviction, cut bool) {
	if len(j.pods) == 0 {
		return nil, false
	}
	c := &crowd{trial: t}
	r := &plan.Removal{Short: t.lacks}
	budgets := newBudgets(gs.budgets())
	r.Allowed = budgets.allowed()
	units := gs.victims(j, t)
	nodes := choose(units, maxCleared+2*len(j.pods), plan.Looks/8/(putLooks+len(t.kinds)/2))
	cleared := map[int]bool{}
	for _, u := range units {
		if !slices.ContainsFunc(u.pods, func(s seated) bool { return nodes[s.node] }) {
			continue
		}
		v := plan.Victim{Priority: corev1helpers.PodPriority(u.pods[0].body.GetPod()), Leaving: u.leaving, Started: startOf(u.pods[0].body.GetPod())}
		for _, s := range u.pods {
			pod := s.body.GetPod()
			v.Priority = max(v.Priority, corev1helpers.PodPriority(pod))
			v.Started = min(v.Started, startOf(pod))
			v.Pods = append(v.Pods, plan.Occupant{Node: s.node, Pod: suppose.Pod{UID: string(pod.UID)}, Budgets: budgets.of(pod)})
			cleared[s.node] = true
		}
		r.Victims, c.pods = append(r.Victims, v), append(c.pods, u.pods)
	}
	if len(r.Victims) == 0 {
		return nil, false
	}
	t.cleared = cleared
	defer func() { t.cleared = nil }()
	found, ok := plan.Evict(&j.gang, c, r, t.budget)
	victimQuestions.Observe(float64(found.Asked))
	if found.Cut {
		searchesCut.Inc()
	}
	if !ok {
		return nil, found.Cut
	}
	out := &eviction{nodes: map[types.UID]string{}, cut: found.Cut}
	for _, at := range found.Places {
		out.nodes[j.pods[at.Member].UID] = t.name(at.Node)
	}
	for _, i := range found.Victims {
		for _, s := range c.pods[i] {
			out.victims = append(out.victims, s.body.GetPod())
		}
	}
	for i := range r.Victims {
		if r.Victims[i].Leaving {
			out.leaving += len(r.Victims[i].Pods)
		}
	}
	return out, found.Cut
}

// searchCut is the text for a search that was cut off.
const searchCut = "the search for pods to evict was cut off, because it had asked nodes often enough"

// unit is pods that are evicted together or not at all.
type unit struct {
	pods    []seated
	leaving bool
}

// victims are those whom the group may have evicted: pods of lower priority, members of gangs with
// their gangs, and pods that are leaving anyway. Protected pods and gangs are spared. A gang counts
// by its lowest priority: a member of a higher one shields nobody. Only pods on nodes that eviction
// may open count.
func (gs *Groups) victims(j *job, t *trial) []unit {
	limit, may := lowestPriority(j.pods), !t.profile.Terms.EvictsNobody && mayPreempt(j.pods)
	spares := limit < gangs.SystemCritical
	open := make([]bool, len(t.infos))
	for i := range t.infos {
		open[i] = t.mayOpen(i)
	}
	gangs, units := map[wire.GangKey][]seated{}, []unit{}
	lowest := map[wire.GangKey]int32{}
	for i, info := range t.infos {
		for _, body := range info.GetPods() {
			pod := body.GetPod()
			of, priority := gs.gangOf(pod), corev1helpers.PodPriority(pod)
			switch s := (seated{i, body}); {
			case wire.Ended(pod):
			case gs.isLeaving(pod):
				if open[i] {
					units = append(units, unit{pods: []seated{s}, leaving: true})
				}
			case !may:
			case !of.IsZero():
				if was, known := lowest[of]; !known || priority < was {
					lowest[of] = priority
				}
				gangs[of] = append(gangs[of], s)
			case open[i] && priority < limit && !(spares && gs.protects(pod)):
				units = append(units, unit{pods: []seated{s}})
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(gangs), func(a, b wire.GangKey) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		if lowest[key] < limit && !(spares && gs.protectsGang(key, gangs[key])) && slices.ContainsFunc(gangs[key], func(s seated) bool { return open[s.node] }) {
			units = append(units, unit{pods: gangs[key]})
		}
	}
	return units
}

// lowestPriority is what a gang evicts by: a member of a low priority is not to go before others
// because of its mates.
func lowestPriority(pods []*corev1.Pod) int32 {
	lowest := corev1helpers.PodPriority(pods[0])
	for _, pod := range pods[1:] {
		lowest = min(lowest, corev1helpers.PodPriority(pod))
	}
	return lowest
}

// gangOf returns the gang that a pod on a node belongs to; zero for none.
func (gs *Groups) gangOf(pod *corev1.Pod) wire.GangKey {
	if bound, said := wire.ReadBoundFor(pod); said {
		return bound.Gang
	}
	if !gs.any.Load() || !wire.InGang(pod) {
		return wire.GangKey{}
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.of[pod.UID]; g != nil {
		return g.key
	}
	return wire.GangKey{}
}

// mayPreempt says whether all members want others evicted for them.
func mayPreempt(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == corev1.PreemptNever
	})
}

// mayOpen says whether the node may take members once pods have gone.
func (t *trial) mayOpen(node int) bool {
	return slices.ContainsFunc(t.kinds, func(k *kind) bool {
		return (k.allowed == nil || k.allowed.Has(t.name(node))) && (k.refused[node] == nil || k.refused[node].Code() == fwk.Unschedulable)
	})
}

// choose picks the nodes that are thought of as cleared: those with the fewest pods that could go,
// and with so many pods at most.
func choose(units []unit, most, pods int) map[int]bool {
	count := map[int]int{}
	for _, u := range units {
		for _, s := range u.pods {
			count[s.node]++
		}
	}
	order := slices.SortedFunc(maps.Keys(count), func(a, b int) int { return cmp.Or(cmp.Compare(count[a], count[b]), cmp.Compare(a, b)) })
	out := map[int]bool{}
	for _, node := range order[:min(most, len(order))] {
		if pods -= count[node]; pods < 0 {
			break
		}
		out[node] = true
	}
	return out
}

// leaveTimeout is how long an evicted pod may go without news of its deletion before it counts as
// one that stays.
const leaveTimeout = 30 * time.Second

// isLeaving says whether a pod is on its way out.
func (gs *Groups) isLeaving(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return true
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	at, ok := gs.evicted[pod.UID]
	return ok && gs.Clock.Now().Sub(at) < leaveTimeout
}

// startOf is when a pod began, in seconds.
func startOf(pod *corev1.Pod) int64 {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Unix()
	}
	return pod.CreationTimestamp.Unix()
}

// budgets are PodDisruptionBudgets, as kube-scheduler counts them.
type budgets struct {
	list      []*policyv1.PodDisruptionBudget
	selectors []labels.Selector
}

func (gs *Groups) budgets() []*policyv1.PodDisruptionBudget {
	list, err := gs.Budgets()
	if err != nil {
		gs.Logger.Error(err, "PodDisruptionBudgets cannot be read; gangs count none")
	}
	return list
}

func newBudgets(list []*policyv1.PodDisruptionBudget) *budgets {
	out := &budgets{}
	for _, b := range list {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || selector.Empty() {
			continue // as kube-scheduler has it: such a budget counts nobody
		}
		out.list, out.selectors = append(out.list, b), append(out.selectors, selector)
	}
	return out
}

func (b *budgets) allowed() []int {
	out := make([]int, len(b.list))
	for i := range b.list {
		out[i] = int(b.list[i].Status.DisruptionsAllowed)
	}
	return out
}

// of are the budgets that count a pod, except for the ones that know already that it goes.
func (b *budgets) of(pod *corev1.Pod) (out []int) {
	for i := range b.list {
		if b.list[i].Namespace != pod.Namespace || len(pod.Labels) == 0 || !b.selectors[i].Matches(labels.Set(pod.Labels)) {
			continue
		}
		if _, known := b.list[i].Status.DisruptedPods[pod.Name]; !known {
			out = append(out, i)
		}
	}
	return out
}

// nominate has members keep what victims leave from others. It is called without the lock: the
// scheduling queue, which keeps nominations, asks PreEnqueue with its own lock held.
func (gs *Groups) nominate(j *job, t *trial, e *eviction, leader types.UID) {
	for i, pod := range j.pods {
		if node := e.nodes[pod.UID]; node != "" && pod.UID != leader {
			t.profile.Handle.AddNominatedPod(gs.Logger, t.bodies[i], &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride})
		}
	}
}

// sendAway gets victims deleted soon. by names the group that needs their room. The caller holds
// the lock.
func (gs *Groups) sendAway(victims []*corev1.Pod, by string) {
	if len(victims) == 0 || !gs.Lead.Leads() {
		return
	}
	now := gs.Clock.Now()
	maps.DeleteFunc(gs.evicted, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= leaveTimeout })
	for _, victim := range victims {
		gs.evicted[victim.UID] = now
	}
	victimsEvicted.Add(float64(len(victims)))
	go func() {
		for _, victim := range victims {
			gs.preempt(victim, by)
		}
	}()
}

// MakeRoom has others evicted for a pod of no gang, which is planned as a gang of one: a member of
// a gang goes with its whole gang, or stays. node is where the pod goes then; "" where evicting
// does not help. asked is false where no gang and no protected pod could be among the victims: then
// kube-scheduler's own preemption does as well. That would take members one by one, and spares
// nobody.
func (gs *Groups) MakeRoom(ctx context.Context, profile Profile, pod *corev1.Pod) (node string, asked bool) {
	priority := corev1helpers.PodPriority(pod)
	spares := priority < gangs.SystemCritical && gs.protected.below(priority)
	if !mayPreempt([]*corev1.Pod{pod}) || !spares && !(gs.any.Load() && gs.couldTear(priority)) {
		return "", false
	}
	j := &job{pods: []*corev1.Pod{pod}, tasks: []string{""}}
	j.gang.Minimum = 1
	r := j.try(ctx, profile)
	switch {
	case r.wrong != nil:
		return "", true
	case r.Whole: // a node has changed since it was asked
		return r.trial.name(r.Places[0].Node), true
	}
	e, _ := gs.evict(j, r.trial)
	if e == nil {
		return "", true
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.sendAway(e.victims, "pod "+pod.Namespace+"/"+pod.Name)
	return e.nodes[pod.UID], true
}

// couldTear says whether a member of a lower priority has a node, or was evicted just now.
func (gs *Groups) couldTear(limit int32) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for _, at := range gs.evicted {
		if gs.Clock.Now().Sub(at) < leaveTimeout {
			return true
		}
	}
	for _, g := range gs.groups {
		if g.done.All == 0 {
			continue
		}
		for priority := range g.priorities {
			if priority < limit {
				return true
			}
		}
	}
	return false
}

// preempt has one victim go: one that waits in Permit goes back to the queue, any other is deleted.
func (gs *Groups) preempt(victim *corev1.Pod, by string) {
	if w := gs.Waiting(victim.UID); w != nil && w.Preempt(Name, "preempted by "+by) {
		return
	}
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), gs.Logger), requestTimeout)
	defer cancel()
	err := gs.patchCondition(ctx, victim, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: corev1.PodReasonPreemptionByScheduler, Message: "Berth: preempting to accommodate " + by + ", of higher priority",
	})
	if err == nil {
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))}
		err = gs.Client.CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, options)
	}
	switch {
	case err == nil:
		gs.Events.Eventf(victim, nil, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by %s on node %s", by, victim.Spec.NodeName)
	case !isGone(err):
		gs.Logger.Error(err, "Pod cannot be evicted; who needs its place looks again", "pod", klog.KObj(victim), "for", by)
		gs.mu.Lock()
		delete(gs.evicted, victim.UID)
		gs.mu.Unlock()
		gs.Stir()
	}
}

// maxVictimsNamed bounds how many victims an event names.
const maxVictimsNamed = 8

// text says what is done.
func (e *eviction) text() string {
	if len(e.victims) == 0 {
		return fmt.Sprintf("fits once %s that are on their way out have gone", wire.Counted(e.leaving, "pod"))
	}
	var names []string
	for _, pod := range e.victims[:min(len(e.victims), maxVictimsNamed)] {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(e.victims) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if e.cut {
		text += "; fewer may do: " + searchCut
	}
	return fmt.Sprintf("fits once %s of lower priority have gone, which are evicted: %s", wire.Counted(len(e.victims), "pod"), text)
}

// Nominated is the node that is kept for a member while others leave it; "" for none.
func (gs *Groups) Nominated(uid types.UID) string {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.of[uid]; g != nil && g.plan == nil {
		if m := g.members[uid]; m.nominated != "" {
			return m.nominated
		}
		if first := g.leader(); first != nil && first.pod.UID == uid {
			return g.kept[uid].node
		}
	}
	return ""
}
