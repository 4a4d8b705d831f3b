package gang

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/wire"
)

// Terms are a scheduling profile's arguments about the admission of groups and about evictions.
type Terms struct {
	Admission gangs.Admission
	// EvictsNobody means that no pod is evicted for a gang.
	EvictsNobody bool
}

// admitter admits groups with minResources, and keeps for them the resources that their pods do not
// use yet. The book's lock protects the admitter.
type admitter struct {
	book     *book
	admitted map[wire.GangKey]*admission
	// spoiled has the namespaces whose groups cannot keep resources from groups of other
	// namespaces, with the time at which this ends. A namespace is added when resources were kept
	// for one of its groups, but no pod of the group got a node. A group whose first members have
	// nodes is not affected. A namespace is also added when pods have waited for one of its groups
	// without success (Groups.goAhead).
	spoiled map[string]time.Time
	// vacant has the objects of groups that wait to be admitted and do not have enough pods.
	vacant          map[wire.GangKey]vacancy
	lookingAtVacant bool
	vacantLooks     int
	// tellStatus schedules a write of the group's status.
	tellStatus func(*group)
}

// admission is the record of an admitted group with minResources. The part of minResources that the
// group does not use yet is not free for other groups with minResources. If nothing were kept,
// several groups whose controllers create pods in stages could each start only the first stage, and
// block each other forever.
type admission struct {
	// asked are the minResources with which the group was admitted. Unless unchecked is set, they
	// passed the admission gate (gangs.Admission.Gate): they were free, or evictions could free
	// them. A later change of the object does not change asked.
	asked amounts.List
	// unchecked means that only the phase of the object shows the admission, for example after a
	// restart. A tenant may have raised minResources after the admission, or may have written the
	// phase, because Volcano's definition has no status subresource. If unchecked is set, only
	// groups of the same namespace must leave resources to the group.
	unchecked bool
	// priority is the group's priority while it has no pods, or 0 if it is not known. foreign is
	// the priority that counts against groups of other namespaces. It is at most the priority of
	// pods without a PriorityClass, because the author of a PodGroup may name any class.
	priority, foreign int32
	// classes are the PriorityClasses of the group's pods while it has no pods.
	classes []string
	// until is the time when the kept resources are released; zero means that they were released
	// early. It is extended only once, when the first members get nodes (placed), so that a tenant
	// cannot keep resources without end.
	until  time.Time
	placed bool
}

// admit records that a group is admitted or, if a.placed is set, that its first members get nodes.
// The resources that the group does not use yet are kept for it for the duration keep. The caller
// holds the lock.
func (b *admitter) admit(key wire.GangKey, a admission, keep time.Duration) {
	if was := b.admitted[key]; was != nil && (was.placed || !a.placed) {
		if was.unchecked && !a.unchecked {
			was.asked, was.unchecked = a.asked, false
		}
		return
	}
	keep = max(0, keep)
	a.until = b.book.Clock.Now().Add(keep)
	b.admitted[key] = &a
	if keep > 0 {
		later.Call(b.book.Clock, keep, func() { b.expire(key, &a) })
	}
}

// spoiledFor is the time for which a namespace stays in admitter.spoiled, as a multiple of
// Admission.KeepFor.
const spoiledFor = 10

// expire is called when the kept resources of an admission become free (admission.until). If no pod
// of the group got a node, expire adds the namespace to b.spoiled.
func (b *admitter) expire(key wire.GangKey, a *admission) {
	b.book.mu.Lock()
	current := b.admitted[key] == a && !a.until.IsZero()
	if current && !a.placed {
		b.spoil(key.Namespace)
	}
	b.book.mu.Unlock()
	if current {
		b.book.stirred()
	}
}

// spoil adds the namespace to b.spoiled. The caller holds the lock.
func (b *admitter) spoil(namespace string) {
	keep := b.book.terms(volcanoScheduler).Admission.KeepFor.Duration
	b.spoiled[namespace] = b.book.Clock.Now().Add(spoiledFor * max(0, keep))
}

// forgive removes from b.spoiled the namespaces whose time is over, and the namespaces that are
// gone. The caller holds the lock.
func (b *admitter) forgive(gone func(namespace string) bool) {
	now := b.book.Clock.Now()
	maps.DeleteFunc(b.spoiled, func(namespace string, until time.Time) bool { return !now.Before(until) || gone(namespace) })
}

// discharge removes the admission of a group whose object is gone, and reports whether resources
// were kept for the group. The caller holds the lock.
func (b *admitter) discharge(key wire.GangKey) (kept bool) {
	a := b.admitted[key]
	delete(b.admitted, key)
	kept = a != nil && b.book.Clock.Now().Before(a.until)
	if kept && !a.placed {
		b.spoil(key.Namespace)
	}
	return kept
}

// keepsNothing releases the kept resources of a group. The group stays admitted. The caller holds
// the lock.
func (b *admitter) keepsNothing(key wire.GangKey) {
	if a := b.admitted[key]; a != nil && b.book.Clock.Now().Before(a.until) {
		a.until = time.Time{}
		b.book.callAt(b.book.Clock.Now(), b.book.stirred)
	}
}

// holds reports whether resources are kept for a group even from groups of other namespaces. If
// holds returns true, the group does not have to pass the admission gate again. The caller holds
// the lock.
func (b *admitter) holds(key wire.GangKey) bool {
	a, now := b.admitted[key], b.book.Clock.Now()
	return a != nil && !a.unchecked && now.Before(a.until) && (a.placed || !now.Before(b.spoiled[key.Namespace]))
}

// keptFrom returns the resources that a group of the given priority must not use, because they are
// kept for other admitted groups. keptFrom ignores admitted groups of lower priority, because their
// pods could be evicted. If attempt is set, members that have reached Permit or were bound count as
// placed, as in the scheduler's cache. If attempt is not set, a member counts as placed only if the
// watch shows it with a node. The caller holds the lock.
func (b *admitter) keptFrom(key wire.GangKey, priority int32, attempt bool) amounts.List {
	kept, now, theirs := amounts.List{}, b.book.Clock.Now(), map[string][]unused{}
	for other, a := range b.admitted {
		g := b.book.groups[other]
		if other == key || !now.Before(a.until) || other.Namespace != key.Namespace && !b.holds(other) {
			continue
		}
		own := a.priority
		if other.Namespace != key.Namespace {
			own = a.foreign
		}
		if g != nil {
			own = g.lowest(own)
		}
		if own < priority {
			continue
		}
		left := g.unused(a.asked, attempt)
		if g != nil && (g.waiting.All == 0 || g.lacks(&g.waiting, &g.done) != "") {
			left.Take(g.behindGates) // the group cannot use it before the gates are removed
		}
		if other.Namespace == key.Namespace || b.book.Quotas == nil {
			kept.Add(left)
			continue
		}
		theirs[other.Namespace] = append(theirs[other.Namespace], unused{maps.Clone(left), g, a.classes})
	}
	for namespace, list := range theirs {
		for _, q := range b.book.Quotas(namespace) {
			q.limit(list)
		}
		for i := range list {
			kept.Add(list[i].left)
		}
	}
	return kept
}

// unused has the resources that an admitted group does not use yet. group is nil if the group has
// no pods; classes are then the PriorityClasses of its pods.
type unused struct {
	left    amounts.List
	group   *group
	classes []string
}

// Quota is a ResourceQuota.
type Quota struct {
	// Left has the amounts that pods may still request. A resource that is not in Left has no
	// limit.
	Left amounts.List
	// Covers reports whether the quota limits a pod, according to its scopes.
	Covers func(*corev1.Pod) bool
}

// limit limits the resources that groups of the quota's namespace do not use yet: together, to the
// amount that the quota still allows, plus the requests of the groups' pods without a node. It
// ignores groups of which the quota covers no pod. Without the limit, the author of a PodGroup
// could keep any amount from other namespaces.
func (q *Quota) limit(all []unused) {
	all = slices.DeleteFunc(slices.Clone(all), func(u unused) bool { return !u.under(q) })
	for name, most := range q.Left {
		for _, u := range all {
			if u.group != nil && u.left[name] > 0 {
				most = amounts.Sum(most, u.group.unplaced(name))
			}
		}
		for _, u := range all {
			if u.left[name] > 0 {
				u.left[name] = min(u.left[name], most)
				most -= u.left[name]
			}
		}
	}
}

// under reports whether the quota covers any pod of the group. If the group has no pods, under asks
// about a pod of each of its classes.
func (u *unused) under(q *Quota) bool {
	if u.group != nil {
		for _, m := range u.group.members {
			if q.Covers(m.pod) {
				return true
			}
		}
		return false
	}
	classes := u.classes
	if len(classes) == 0 {
		classes = []string{""}
	}
	return slices.ContainsFunc(classes, func(class string) bool {
		pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: class, Containers: make([]corev1.Container, 1)}}
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")} // minResources are no best effort
		return q.Covers(pod)
	})
}

// unplaced returns the amount of a resource that the members without a node request.
func (g *group) unplaced(resource string) (amount int64) {
	for _, m := range g.members {
		if !m.placed() {
			amount = amounts.Sum(amount, m.takes()[resource])
		}
	}
	return amount
}

// lowest returns the lowest priority of the active members, or the given priority if there are
// none.
func (g *group) lowest(otherwise int32) int32 {
	first := true
	for priority := range g.priorities {
		if first || priority < otherwise {
			otherwise, first = priority, false
		}
	}
	return otherwise
}

// unused returns the part of a group's minResources that its members do not use yet. If attempt is
// set, members that have reached Permit or were bound count as placed (keptFrom). g is nil if the
// group has no members.
func (g *group) unused(asked amounts.List, attempt bool) amounts.List {
	if g == nil {
		return asked
	}
	left := maps.Clone(asked)
	if left.Take(g.shown); attempt {
		left.Take(g.posted)
		for _, at := range g.seats() {
			if m := g.members[at.uid]; at.arrived && m != nil && !m.placed() {
				left.Take(m.takes())
			}
		}
	}
	return left
}

func (g *group) seats() []*place {
	if g.plan == nil {
		return nil
	}
	return g.plan.places
}

// takes returns the amounts that a member uses on its node: its requests, and one pod.
func (m *member) takes() amounts.List {
	if m.asks == nil {
		m.asks = wire.ReadAmounts(m.pod)
		m.asks.Add(amounts.List{amounts.Pods: 1})
	}
	return m.asks
}

// claim returns the gangfit.Claim that the admission gate checks before a group is planned, or nil
// if there is nothing to check. The result asked has the minResources with which the group is
// admitted if the gate does not stop the attempt. The caller holds the lock.
func (b *admitter) claim(g *group) (c *gangfit.Claim, asked amounts.List) {
	switch {
	case g.Whole || len(g.spec.Resources) == 0:
		return nil, nil
	case b.holds(g.key):
		return nil, b.admitted[g.key].asked
	}
	priority, asked := g.lowest(0), wire.ReadResources(g.spec.Resources)
	return &gangfit.Claim{Asked: g.unused(asked, true), Kept: b.keptFrom(g.key, priority, true), Priority: priority}, asked
}

// claim completes the gangfit.Claim from admitter.claim with the profile's terms and the function
// that counts the cluster's resources. If the profile has no admission gate (gangs.GateNone), it
// removes the claim.
func (t *trial) claim() {
	q, terms := &t.job.gang, &t.job.terms
	if q.Claim == nil || terms.Admission.Gate == gangs.GateNone {
		q.Claim = nil
		return
	}
	q.Claim.Asked = Countable(t.profile.Handle, q.Claim.Asked, nil)
	q.Claim.Overcommit, q.Claim.EvictsNobody = terms.Admission.OvercommitFactor, terms.EvictsNobody || !gangs.MayPreempt(t.job.Pods)
	q.Room = t.room
}

// room counts the resources of all open nodes (gangs.Open). If oneByOne is set, room adds each pod
// as an Occupant, so that package gangfit can count the resources that evictions would free. If
// oneByOne is not set, room adds only the sum of the pods' requests.
func (t *trial) room(oneByOne bool) *gangfit.Room {
	out := new(gangfit.Room)
	for _, info := range t.infos {
		if !gangs.Open(info.Node()) {
			continue
		}
		has, used := countOf(info.GetAllocatable()), countOf(info.GetRequested())
		has[amounts.Pods], used[amounts.Pods] = int64(info.GetAllocatable().GetAllowedPodNumber()), int64(len(info.GetPods()))
		out.Offer(has)
		if !oneByOne {
			out.Hold(used)
			continue
		}
		for _, body := range info.GetPods() {
			o := t.job.others.Occupant(body.GetPod())
			o.Asks = countOf(body.CalculateResource().Resource)
			out.Take(&o)
		}
	}
	return out
}

// Occupant returns the properties of a running pod that decide whether another pod may evict it.
// The field Asks is not set.
func (gs *Groups) Occupant(pod *corev1.Pod) gangfit.Occupant { return gs.evictor.Occupant(pod) }
