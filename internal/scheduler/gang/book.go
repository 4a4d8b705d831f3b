package gang

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/lead"
	"github.com/berth-dev/berth/internal/wire"
)

// Options are the inputs of Groups.
type Options struct {
	Clock  clock.WithDelayedExecution
	Logger klog.Logger
	// Timeout is the time for which members wait for each other if their group sets no timeout
	// (wire.Gang.Timeout).
	Timeout time.Duration
	// Client lists, deletes and patches pods, and lists PriorityClasses.
	Client kubernetes.Interface
	Events events.EventRecorder
	// Objects reads and writes the API objects of groups. If Objects is nil, these objects are
	// neither read nor written.
	Objects Objects
	// Ended gives access to the members that have ended. It is nil if ended pods are not watched.
	Ended Ended
	// Activate moves pods to the scheduler's active queue. Groups holds no lock when it calls
	// Activate.
	Activate func(pods map[string]*corev1.Pod)
	// Waiting returns the pod with this UID if it waits in Permit. Otherwise it returns nil.
	Waiting func(uid types.UID) fwk.WaitingPod
	// Budgets lists the PodDisruptionBudgets.
	Budgets func() ([]*policyv1.PodDisruptionBudget, error)
	// Ours reports whether this scheduler serves pods with the given spec.schedulerName.
	Ours func(schedulerName string) bool
	// Forgo ends a pod's nomination to a node, and retries other pods that may now fit on the node.
	// Groups holds no lock when it calls Forgo. Forgo may be nil.
	Forgo func(pod *corev1.Pod, node string)
	// Room counts the cluster's resources, to admit groups without enough pods. If Room is nil,
	// such groups are not admitted.
	Room func() (*gangfit.Room, error)
	// Countable returns the amounts without the resources that Room does not count. Countable may
	// be nil.
	Countable func(amounts.List) amounts.List
	// Quotas returns the quotas of a namespace, those with scopes first. Quotas may be nil.
	Quotas func(namespace string) []Quota
	// OwnGroup returns the priority with which a pod of a Kubernetes PodGroup resists eviction. If
	// the PodGroup's pods may only be evicted together, whole names the PodGroup; otherwise it is
	// "". OwnGroup may be nil.
	OwnGroup func(pod *corev1.Pod) (whole string, priority int32)
	// Terms returns the Terms of the profile with the given name; nil means the defaults.
	Terms func(schedulerName string) Terms
	// Protects reports whether pods and gangs of the namespace may protect themselves from
	// eviction; nil means that all may.
	Protects func(namespace string) bool
	// Lead is the gate that allows writes and deletions once it is open. If Lead is nil, New makes
	// a gate. The function that Follow returns opens the gate.
	Lead *lead.Gate
}

// send moves pods to the active queue. The caller must not hold the book's lock.
func (o *Options) send(pods ...*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	out := make(map[string]*corev1.Pod, len(pods))
	for _, pod := range pods {
		out[pod.Namespace+"/"+pod.Name] = pod
	}
	o.Activate(out)
}

func (o *Options) mayProtect(namespace string) bool {
	return o.Protects == nil || o.Protects(namespace)
}

// Objects are the API objects of groups.
type Objects interface {
	// Want starts to watch the objects of a source.
	Want(source wire.GangSource)
	// Read reads an object from the API server. If the object has unsupported fields, Read returns
	// an error together with the Gang. If Read could not read the object, the Gang has no Key. The
	// error text is for users.
	Read(ctx context.Context, key wire.GangKey) (wire.Gang, error)
	// JobOf returns the settings that the pods of a Job of batch.volcano.sh will have.
	JobOf(ctx context.Context, namespace, name string) (Job, error)
	// QueueState returns the state of a Volcano Queue, or "" if it does not exist.
	QueueState(ctx context.Context, queue string) (string, error)
	// Write writes s into the object's status unless the status already has the same content. The
	// result version is the resource version of the object that has this status.
	Write(ctx context.Context, key wire.GangKey, s standing) (version string, err error)
}

// Ended gives access to the ended pods of gangs. kube-scheduler's own watch omits ended pods
// (newPodInformer in pkg/scheduler/scheduler.go).
type Ended interface {
	// Want starts the watch.
	Want()
	// Await returns when the watch has shown the pods that existed at its start, or after a
	// timeout.
	Await()
	// Of returns the ended pods of all runs of a gang (gangs.Run).
	Of(key wire.GangKey) []*corev1.Pod
	// Last returns the last version of a pod that has ended. It returns nil if the pod has not
	// ended, is being deleted or is gone.
	Last(pod *corev1.Pod) *corev1.Pod
}

// book has the groups, their members and their states. The lock mu guards most data of the package.
type book struct {
	Options
	// any means that there is, or was, at least one group.
	any atomic.Bool

	mu     sync.Mutex
	groups map[wire.GangKey]*group
	of     map[types.UID]*group
	// ahead has the groups for which surplus members of other groups wait (Progress.GoesAhead).
	ahead map[*group]bool
	// shares limits the time that the unsuccessful attempts of each namespace take.
	shares gangs.Shares
	// stirs counts the changes of the cluster that could help a group that does not fit.
	stirs uint64
	// synced means that the watch has shown all pods that existed at the start. Before synced is
	// set, a whole gang could look incomplete.
	synced bool
	// ledFrom is the first time at which this process was the leader and had seen all pods, or
	// zero.
	ledFrom time.Time
	// stirred is Groups.Stir.
	stirred func()
}

// join adds the pod to its group, and returns the group. If the group does not exist, join creates
// it. If the pod has no gang, join returns nil. Pods of other schedulers create no group, but are
// added to an existing group that they name. Call join only for pods that a watch shows, because no
// event would remove a pod that is already gone. The caller holds the lock.
func (b *book) join(pod *corev1.Pod) *group {
	if g := b.of[pod.UID]; g != nil {
		return g
	}
	m := b.memberOf(pod)
	if m == nil || !b.Ours(pod.Spec.SchedulerName) && b.groups[m.says.Gang] == nil {
		return nil
	}
	if m.says.Gang.IsZero() { // the name is not valid: the pod gets its own group, which has the error
		m.says.Gang = wire.GangKey{Source: wire.GangOfPods, Namespace: pod.Namespace, Name: "?" + string(pod.UID)}
	}
	g := b.named(m.says.Gang)
	g.members[pod.UID] = m
	b.of[pod.UID] = g
	g.sum(m)
	g.changes++
	g.read()
	return g
}

// memberOf returns a new member for the pod, or nil if the pod belongs to no gang. The caller holds
// the lock.
func (b *book) memberOf(pod *corev1.Pod) *member {
	m, ok := gangs.PartOf(pod, !b.synced)
	if !ok {
		return nil
	}
	return &member{pod: pod, claims: m.Claims, says: m.Says, wrong: m.Wrong}
}

// belongs reports whether the pod may be a member: it or its Binding names a gang. The check is
// cheap.
func belongs(pod *corev1.Pod) bool {
	_, said := pod.Annotations[wire.BoundForAnnotation]
	return said || wire.InGang(pod)
}

// named returns the group with the key, and creates the group if necessary. The caller holds the
// lock.
func (b *book) named(key wire.GangKey) *group {
	if g := b.groups[key]; g != nil {
		return g
	}
	g := &group{key: key, members: map[types.UID]*member{}}
	g.wrong = g.unknown()
	b.groups[key] = g
	b.any.Store(true)
	if b.Objects != nil && key.Source.HasObject() {
		b.Objects.Want(key.Source)
	}
	if b.Ended != nil {
		b.Ended.Want()
	}
	return g
}

// unknown returns the error for a group whose object has not been seen. It returns nil if groups of
// this source have no object.
func (g *group) unknown() error {
	if !g.key.Source.HasObject() {
		return nil
	}
	return fmt.Errorf("%s does not exist, or this scheduler has not seen it yet", g.key)
}

// swears reports whether the annotation from the pod's Binding names the gang.
func swears(pod *corev1.Pod, key wire.GangKey) bool {
	bound, said := wire.ReadBoundFor(pod)
	return said && bound.Gang == key
}

// callAt calls the function do in the background at the given time, or at once if that time has
// passed.
func (b *book) callAt(at time.Time, do func()) {
	later.Call(b.Clock, max(0, at.Sub(b.Clock.Now())), do)
}

// wantsObject reports whether the group needs a current version of its object: it has enough
// members, and one of them waits for a node. It returns false if groups of this source have no
// object.
func (b *book) wantsObject(g *group) bool {
	if !g.key.Source.HasObject() || b.Objects == nil {
		return false
	}
	return g.lacks(&g.waiting, &g.done) == "" && g.waiting.All > 0
}

// unseen is the message for a pod that the watch has not shown yet, or no longer shows.
const unseen = "the pod has not been seen yet, or is gone"

// gate returns the reason why the scheduler must not try a member now, or "". The caller holds the
// lock.
func (b *book) gate(g *group, uid types.UID) string {
	if !b.synced {
		return "the groups of pods have not been read yet"
	}
	name := g.key.String()
	switch c := g.conditions(); g.Phase(c, b.Clock.Now()) {
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
		return "the object of " + name + " is being read again"
	case gangs.BackedOff:
		return name + " was tried without success, and backs off"
	case gangs.Parked:
		return g.Why
	case gangs.Settled:
		return g.members[uid].Why
	}
	if g.members[uid] == g.leader() {
		return ""
	}
	return "the attempt of its first member plans all members of " + name
}

// stillThere reports whether a plan that was made without the lock is still valid: all its members
// need a node, and the group exists, is not wrong and is not ending. The caller holds the lock.
func (b *book) stillThere(g *group, p *planned) bool {
	for _, at := range p.places {
		if m := g.members[at.uid]; m == nil || !m.pending() {
			return false
		}
	}
	return g.wrong == nil && b.groups[g.key] == g && g.Doing != gangs.Ending
}

// find returns a member's plan and its place in the plan. Both are nil if no plan contains the
// member.
func (b *book) find(uid types.UID) (*planned, *place) {
	if !b.any.Load() {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.of[uid].placeOf(uid); at != nil {
		return b.of[uid].plan, at
	}
	return nil, nil
}

func (b *book) timeout(g *group) time.Duration {
	if g.spec.Timeout > 0 {
		return g.spec.Timeout
	}
	return b.Timeout
}

// boundSince returns the time from which a gang's deadline is counted: when this process, as the
// leader, first saw a bound member. Any earlier time would be unsafe, because the clocks of other
// machines may be wrong, and Bindings of the previous leader may still arrive. boundSince returns
// zero if this process does not lead, if no member is bound, or if the gang needs no new deadline.
// The caller holds the lock.
func (b *book) boundSince(g *group) (first time.Time) {
	if !b.Lead.Leads() || g.Whole || !g.Deadline.IsZero() || g.spec.Minimum == 0 {
		return first
	}
	for _, m := range g.members {
		if m.placed() && m.active() && m.sworn && !m.bound.IsZero() && (first.IsZero() || m.bound.Before(first)) {
			first = m.bound
		}
	}
	if !first.IsZero() && first.Before(b.ledFrom) {
		return b.ledFrom
	}
	return first
}

// notNow returns the status of a member that is not tried now, for a reason other than missing
// capacity.
func notNow(why string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: "+why)
}

const requestTimeout = 10 * time.Second

// isGone reports whether the API server's error means that an object is gone or was replaced, or
// that the object's kind is not served.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// job collects the input of a trial. The trial is for the members of g.atOnce or, if the gang has
// its minimum, only for the member with the UID one. The caller holds the lock.
func (b *book) job(g *group, one types.UID) *job {
	j := &job{stirs: b.stirs, single: g.settled(), terms: b.terms(g.scheduler())}
	j.gang.Done = g.done.All
	planned := g.atOnce()
	left := g.needed()
	j.gang.Minimum, j.gang.Tasks = left.All, left.Tasks
	if j.single {
		planned, j.gang.Minimum = []*member{g.members[one]}, 1
	}
	j.gang.Start = j.gang.Minimum + j.gang.Done
	j.modest = !j.single && g.asking == 0 && len(planned) > left.All && b.rivals(g)
	for _, m := range planned {
		j.Pods = append(j.Pods, m.pod)
		j.Tasks = append(j.Tasks, m.says.Task)
	}
	if g.asking > 0 {
		j.Seated = g.seated()
	}
	return j
}

// rivals reports whether another gang of the same or a higher priority could be tried now, and has
// not reached its minimum. As in Volcano, the minimums of all such gangs come before members that
// no gang needs for its minimum. The caller holds the lock.
func (b *book) rivals(g *group) bool {
	priority, now := g.lowest(0), b.Clock.Now()
	for _, other := range b.groups {
		if other == g || other.waiting.All == 0 || other.lowest(0) < priority {
			continue
		}
		if p := other.Phase(other.conditions(), now); p == gangs.Ready || p == gangs.Unconfirmed || b.ahead[other] {
			return true
		}
	}
	return false
}

// gangOf returns the gang of a pod that is on a node, or the zero key if it has none.
func (b *book) gangOf(pod *corev1.Pod) wire.GangKey {
	if bound, said := wire.ReadBoundFor(pod); said {
		return bound.Gang
	}
	if !b.any.Load() || !wire.InGang(pod) {
		return wire.GangKey{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.of[pod.UID]; g != nil {
		return g.key
	}
	return wire.GangKey{}
}

// surplus returns the UIDs of members that a gang can lose without falling below its minimum. It
// keeps the first of the members. If the gang is not settled or has a plan, no member is surplus.
func (b *book) surplus(key wire.GangKey, members []*corev1.Pod) map[types.UID]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[key]
	if g == nil || !g.settled() || g.Planned() {
		return nil
	}
	var succeeded gangs.Count
	for _, m := range g.members {
		if m.summed.done && m.summed.life == lifeEnded {
			succeeded.Add(m.summed.task, 1)
		}
	}
	out := make(map[types.UID]bool, len(members))
	var line []*member
	for _, pod := range members {
		out[pod.UID] = true
		if m := g.members[pod.UID]; m != nil && m.summed.done {
			line = append(line, m)
		}
	}
	left := gangs.Needed(&g.spec, &succeeded)
	for _, m := range gangs.Together(line, func(m *member) string { return m.summed.task }, left.All, left.Tasks) {
		delete(out, m.pod.UID)
	}
	return out
}

// keepsPods reports whether the object of a gang protects the gang's pods from eviction. It returns
// false if Options.Protects does not allow this in the gang's namespace.
func (b *book) keepsPods(key wire.GangKey) bool {
	if key.IsZero() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[key]
	return g != nil && g.spec.Kept && b.mayProtect(key.Namespace)
}
