package gang

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
)

// seated is a pod on a node of the trial. node is an index in trial.infos.
type seated struct {
	node int
	body fwk.PodInfo
}

// eviction is a set of victims whose eviction makes a group fit.
type eviction struct {
	// victims are the pods to evict. leaving counts the pods whose deletion has already begun and
	// which also free resources for the group.
	victims []*corev1.Pod
	leaving int
	// nodes has the node of each member that fits after the eviction, by the member's UID.
	nodes map[types.UID]string
	// mixed means that some victim's priority is not lower than the group's. Such a victim is
	// evicted because its gang is evicted as a whole, and another pod of that gang has a lower
	// priority.
	mixed bool
	// cut means that the search stopped early, so fewer victims may be enough.
	cut bool
}

// crowd is a trial that can also remove running pods from its nodes. It implements plan.Crowd.
type crowd struct {
	*trial
	pods [][]seated // the pods of each victim
}

var _ plan.Crowd = (*crowd)(nil)

// Evict implements plan.Crowd.
func (c *crowd) Evict(victim int) {
	c.changed()
	for _, s := range c.pods[victim] {
		on := c.copied(s.node)
		c.budget.Spend(putLooks + len(c.kinds)/2)
		if on.RemovePod(klog.FromContext(c.ctx), s.body.GetPod()) != nil {
			continue // the pod was not on the node
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

// A trial looks for victims on at most maxCleared nodes, plus two per member; other members of a
// victim's gang may be on further nodes. Like kube-scheduler's preemption, Berth does not try all
// nodes of a large cluster.
const maxCleared = 100

// evict finds pods whose eviction makes the group's minimum fit. It returns nil if evictions do not
// help, or if the search was cut off before it found enough pods. The result cut means that the
// search was cut off.
func (j *job) evict(of *result) (e *eviction, cut bool) {
	if len(j.Pods) == 0 {
		return nil, false
	}
	t := of.trial
	c := &crowd{trial: t}
	r := &plan.Removal{Short: max(1, j.gang.Minimum-len(of.Places))}
	budgets := newBudgets(j.others.budgets())
	r.Allowed = budgets.allowed()
	units := t.victims()
	nodes := choose(units, maxCleared+2*len(j.Pods), plan.Looks/8/(putLooks+len(t.kinds)/2))
	cleared := map[int]bool{}
	add := func(pods []seated, v plan.Victim) (at int) {
		v.Priority, v.Started = corev1helpers.PodPriority(pods[0].body.GetPod()), startOf(pods[0].body.GetPod())
		for _, s := range pods {
			pod := s.body.GetPod()
			v.Priority = max(v.Priority, corev1helpers.PodPriority(pod))
			v.Started = min(v.Started, startOf(pod))
			v.Pods = append(v.Pods, plan.Occupant{Node: s.node, Pod: suppose.Pod{UID: string(pod.UID)}, Budgets: budgets.of(pod)})
			cleared[s.node] = true
		}
		r.Victims, c.pods = append(r.Victims, v), append(c.pods, pods)
		return len(r.Victims) - 1
	}
	for _, u := range units {
		all := slices.ContainsFunc(u.pods, func(s seated) bool { return nodes[s.node] })
		var after []int
		for _, s := range u.surplus {
			if all || nodes[s.node] {
				after = append(after, add([]seated{s}, plan.Victim{}))
			}
		}
		if all {
			add(u.pods, plan.Victim{Leaving: u.leaving, After: after})
		}
	}
	if len(r.Victims) == 0 {
		return nil, false
	}
	t.cleared = cleared
	defer func() { t.cleared = nil }()
	found, ok := plan.Evict(&j.gang.Gang, c, r, t.budget)
	victimQuestions.Observe(float64(found.Asked))
	if found.Cut {
		searchesCut.Inc()
	}
	if !ok {
		return nil, found.Cut
	}
	out := &eviction{nodes: map[types.UID]string{}, cut: found.Cut}
	for _, at := range found.Places {
		out.nodes[j.Pods[at.Member].UID] = t.name(at.Node)
	}
	for _, i := range found.Victims {
		for _, s := range c.pods[i] {
			pod := s.body.GetPod()
			out.victims = append(out.victims, pod)
			out.mixed = out.mixed || corev1helpers.PodPriority(pod) >= gangs.LowestPriority(j.Pods)
		}
	}
	for i := range r.Victims {
		if r.Victims[i].Leaving {
			out.leaving += len(r.Victims[i].Pods)
		}
	}
	return out, found.Cut
}

const searchCut = "the search for pods to evict was cut off, because it had used up its budget"

// unit is a set of pods that are evicted together or not at all. If the pods are members of a gang,
// surplus has the members that the gang does not need: each of them can be evicted separately, and
// all of them are evicted with the unit.
type unit struct {
	pods, surplus []seated
	leaving       bool
}

// victims returns the pods that may be evicted for the group: pods of lower priority, members of
// gangs, and pods that are already leaving. Members that a gang needs for its minimum are evicted
// only together with the whole gang. Fixed pods are never included. Protected pods and gangs are
// included only if the group has a system-critical priority. If the group may not preempt, only
// pods that are already leaving are included. A whole gang counts with the lowest priority of its
// members, so that one member of higher priority does not protect it. For its own members, a gang
// loses only others that it does not need. Each victim has at least one pod on a node that may
// accept members after evictions.
func (t *trial) victims() (units []unit) {
	limit, may := gangs.LowestPriority(t.job.Pods), !t.job.terms.EvictsNobody && gangs.MayPreempt(t.job.Pods)
	open, crews := make([]bool, len(t.infos)), map[string]*crew{}
	for i, info := range t.infos {
		open[i] = t.mayOpen(i)
		for _, body := range info.GetPods() {
			s, o := seated{i, body}, t.job.others.Occupant(body.GetPod())
			switch o.Stays = o.Stays && limit < gangfit.SystemCritical; {
			case wire.Ended(body.GetPod()) || o.Fixed:
			case o.Leaving:
				if open[i] {
					units = append(units, unit{pods: []seated{s}, leaving: true})
				}
			case !may:
			case o.Gang != "":
				if crews[o.Gang] == nil {
					crews[o.Gang] = &crew{lowest: o.Priority}
				}
				crews[o.Gang].add(s, &o, open[i])
			case open[i] && o.Priority < limit && !o.Stays:
				units = append(units, unit{pods: []seated{s}})
			}
		}
	}
	own, _ := wire.ReadMembership(t.job.Pods[0])
	for _, name := range slices.Sorted(maps.Keys(crews)) {
		c := crews[name]
		if c.lowest >= limit || !c.open || c.stays {
			continue
		}
		u := t.unitOf(c.pods, limit, open)
		if name == own.Gang.String() {
			u.pods = nil
		}
		units = append(units, u)
	}
	return units
}

// unitOf returns the unit of a gang. The gang keeps first the members that are of no use to the
// group, because of their node or their priority (limit), and then the oldest.
func (t *trial) unitOf(pods []seated, limit int32, open []bool) (u unit) {
	useful := func(s seated) int {
		return b2i(open[s.node] && corev1helpers.PodPriority(s.body.GetPod()) < limit)
	}
	slices.SortFunc(pods, func(a, b seated) int {
		x, y := a.body.GetPod(), b.body.GetPod()
		return cmp.Or(cmp.Compare(useful(a), useful(b)), cmp.Compare(startOf(x), startOf(y)), strings.Compare(x.Name, y.Name))
	})
	list := make([]*corev1.Pod, len(pods))
	for i := range pods {
		list[i] = pods[i].body.GetPod()
	}
	spare := t.job.others.surplus(list)
	for _, s := range pods {
		if spare[s.body.GetPod().UID] && useful(s) > 0 {
			u.surplus = append(u.surplus, s)
		} else {
			u.pods = append(u.pods, s)
		}
	}
	return u
}

// crew has the members of one gang that are on nodes.
type crew struct {
	pods   []seated
	lowest int32
	// stays means that a member is protected. open means that a member is on a node where evictions
	// may help.
	stays, open bool
}

func (c *crew) add(s seated, o *gangfit.Occupant, open bool) {
	c.pods, c.lowest = append(c.pods, s), min(c.lowest, o.Priority)
	c.stays, c.open = c.stays || o.Stays, c.open || open
}

// mayOpen reports whether the node may accept members after evictions.
func (t *trial) mayOpen(node int) bool {
	return slices.ContainsFunc(t.kinds, func(k *kind) bool {
		refused := t.refusal(k, node)
		return refused == nil || refused.Code() == fwk.Unschedulable
	})
}

// choose returns the nodes that a trial clears: the nodes with the fewest evictable pods. The
// parameter most limits the number of nodes, and the parameter pods limits the total number of
// evictable pods on them.
func choose(units []unit, most, pods int) map[int]bool {
	count := map[int]int{}
	for _, u := range units {
		for _, s := range slices.Concat(u.pods, u.surplus) {
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

// startOf returns the start time of a pod in Unix seconds. If the pod has not started, startOf
// returns its creation time.
func startOf(pod *corev1.Pod) int64 {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Unix()
	}
	return pod.CreationTimestamp.Unix()
}

// budgets matches PodDisruptionBudgets with pods as kube-scheduler does
// (FilterVictimsWithPDBViolation in pkg/scheduler/framework/preemption).
type budgets struct {
	list      []*policyv1.PodDisruptionBudget
	selectors []labels.Selector
}

func newBudgets(list []*policyv1.PodDisruptionBudget) *budgets {
	out := &budgets{}
	for _, b := range list {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || selector.Empty() {
			continue // as in kube-scheduler, such a budget matches no pod
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

// of returns the indexes in b.list of the budgets that match a pod, except the budgets that already
// count the pod as disrupted.
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

// nominate nominates each member except the leader to the node that it gets after the eviction.
// PostFilter nominates the leader. The caller must not hold the lock, because the scheduling queue,
// which stores nominations, calls PreEnqueue with its own lock held.
func (j *job) nominate(t *trial, e *eviction, leader types.UID) {
	for i, pod := range j.Pods {
		if node := e.nodes[pod.UID]; node != "" && pod.UID != leader {
			t.profile.Handle.AddNominatedPod(klog.FromContext(t.ctx), t.bodies[i], &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride})
		}
	}
}

// MakeRoom evicts pods for a pod without a gang, or for a late member. It plans this pod as a gang
// of one. The result node is the node on which the pod then fits, or "" if evictions do not help.
// If asked is true, kube-scheduler's own preemption must not run, because it might evict members
// that gangs need, or protected pods. If asked is false, MakeRoom has evicted nothing, and
// kube-scheduler's own preemption may run: the pod has the preemption policy Never, or no member of
// a gang and no protected pod could be among the victims.
func (gs *Groups) MakeRoom(ctx context.Context, profile Profile, pod *corev1.Pod) (node string, asked bool) {
	priority := corev1helpers.PodPriority(pod)
	spares := priority < gangfit.SystemCritical && gs.evictor.sparesBelow(priority)
	if !gangs.MayPreempt([]*corev1.Pod{pod}) || !spares && !(gs.book.any.Load() && gs.couldTear(priority)) {
		return "", false
	}
	j := &job{Asked: gangs.Asked{Pods: []*corev1.Pod{pod}, Tasks: []string{""}}, others: gs.evictor, terms: gs.book.terms(pod.Spec.SchedulerName)}
	j.gang.Minimum = 1
	r := j.try(ctx, profile)
	switch {
	case r.wrong != nil:
		return "", true
	case r.Whole: // a node has changed since it was asked
		return r.trial.name(r.Places[0].Node), true
	}
	e, _ := j.evict(r)
	if e == nil {
		return "", true
	}
	gs.evictor.sendAway(e.victims, "pod "+pod.Namespace+"/"+pod.Name)
	return e.nodes[pod.UID], true
}

// couldTear reports whether kube-scheduler's own preemption could evict single members of a gang.
// It returns true if a gang with placed members has a member with a priority below limit, or if
// Berth evicted a pod within the last leaveTimeout.
func (gs *Groups) couldTear(limit int32) bool {
	if gs.evictor.awaits() {
		return true
	}
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
	for _, g := range gs.book.groups {
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

const maxVictimsNamed = 8

// text describes the eviction for an event, in words that continue a sentence about the group.
func (e *eviction) text() string {
	if len(e.victims) == 0 {
		return fmt.Sprintf("fits after the deletion of %s, which has already begun", wire.Counted(e.leaving, "pod"))
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
		text += "; fewer may be enough: " + searchCut
	}
	which := "of lower priority"
	if e.mixed {
		which += ", or in the same gang as a pod of lower priority"
	}
	return fmt.Sprintf("fits after the eviction of %s %s: %s", wire.Counted(len(e.victims), "pod"), which, text)
}

// Nominated returns the node that is kept for the leader or a late member while evicted pods leave
// the node, or "".
func (gs *Groups) Nominated(uid types.UID) string {
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
	if g := gs.book.of[uid]; g != nil && g.plan == nil {
		if m := g.members[uid]; m.nominated != "" {
			return m.nominated
		}
		if first := g.leader(); first != nil && first.pod.UID == uid {
			return g.kept[uid].node
		}
	}
	return ""
}
