package reservation

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/lead"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Cache is what this package needs from the scheduler's cache of pods on nodes.
type Cache interface {
	AddPod(logger klog.Logger, pod *corev1.Pod) error
	UpdatePod(logger klog.Logger, oldPod, newPod *corev1.Pod) error
	RemovePod(logger klog.Logger, pod *corev1.Pod) error
}

// Queue is what this package needs from the scheduling queue.
type Queue interface {
	Add(ctx context.Context, pod *corev1.Pod)
	Update(ctx context.Context, oldPod, newPod *corev1.Pod)
	Delete(pod *corev1.Pod)
	Done(uid types.UID)
	Activate(logger klog.Logger, pods map[string]*corev1.Pod)
	AddUnschedulableIfNotPresent(logger klog.Logger, pod *framework.QueuedPodInfo, podSchedulingCycle int64) error
	SchedulingCycle() int64
}

// Writer writes what is known about a Reservation into its object, as of the version given.
type Writer interface {
	// Annotate writes annotations, and returns the object's new version.
	Annotate(ctx context.Context, name, version string, annotations map[string]any) (string, error)
	// Status replaces the status, and returns the object's new version.
	Status(ctx context.Context, name, version string, status *koordinator.ReservationStatus) (string, error)
}

// Options are what Reservations work on and tell.
type Options struct {
	Clock  clock.WithDelayedExecution
	Logger klog.Logger
	Events events.EventRecorder
	// Account is the ledger of a node.
	Account func(node string) *ledger.Node
	// HasNode says whether there is a node of that name.
	HasNode func(name string) bool
	// Changed is told that a node may take pods that it has refused.
	Changed func(node string, held *corev1.Pod)
	// Done is told that a pod which stands for a Reservation wants no node any more.
	Done func(uid string)
	// Ours says whether a scheduler of that name is one of this process.
	Ours func(scheduler string) bool
	// OwnersNeedNamespace refuses Reservations with an owner that names no namespace.
	OwnersNeedNamespace bool
	// Lead says whether anything may be written. nil is a gate that Between opens.
	Lead *lead.Gate
}

// Reservations are all that are for this scheduler. They are safe for concurrent use.
type Reservations struct {
	Options
	// any: there is, or was, one. Without any nothing here costs anything.
	any atomic.Bool
	// read is closed when the ones that were there at the start have been taken in.
	read chan struct{}
	once sync.Once
	// dirty are those whose status may have to be written.
	dirty workqueue.TypedRateLimitingInterface[types.UID]

	// writes lets one write go on at a time.
	writes sync.Mutex

	mu     sync.Mutex
	cache  Cache
	queue  Queue
	writer Writer
	all    map[types.UID]*item
	// users are the pods that were bound as owners of a Reservation, by its UID; bookOf is the
	// Reservation of each. There is at most one entry for each pod that is there, and it goes with
	// the pod or the Reservation.
	users  map[types.UID]map[types.UID]*corev1.Pod
	bookOf map[types.UID]types.UID
	// synced: all pods that were there at the start have been seen.
	synced bool
	// wanting are pods without a node that own one and were not sent to it.
	wanting map[types.UID]*corev1.Pod
	// vain are the Reservations with which a pod was tried in vain, since it was tried without.
	vain map[types.UID]*inVain
	// now is the pod in its cycle, and the Reservation that is open for it; nil for none.
	now  *corev1.Pod
	open *item
	// missed: a place came for the pod in its cycle, which it was not sent to.
	missed bool
}

// inVain are the Reservations with which a pod was tried in vain.
type inVain struct {
	pod *corev1.Pod
	of  []types.UID
}

func (v *inVain) has(of types.UID) bool { return v != nil && slices.Contains(v.of, of) }

type stage uint8

const (
	waiting stage = iota
	placed
	over
)

// item is one Reservation.
type item struct {
	object *koordinator.Reservation
	// version is the newest of the object that is known: that of the last write may not have been
	// told yet.
	version string
	// read is the object as it is understood; nil where it cannot be, and wrong says why.
	read  *wire.Reservation
	wrong error

	stage stage
	node  string
	// decision is where Berth decides; nil elsewhere.
	decision *placement.Decision
	// unchecked: the place was believed from the object, and no report has been asked yet.
	unchecked bool
	// taking are the pods that are reserved there and that the API has not shown bound.
	taking map[types.UID]*corev1.Pod
	// had are the UIDs of the pods that have something of it, and of the ones that had and that the
	// node still knows.
	had []string
	// disbelieved is the version of the object whose status does not hold.
	disbelieved string
	// queued is the pod in the scheduling queue, cached the one in the cache; nil for none.
	queued, cached *corev1.Pod
	// phase, reason and message are what the status should say.
	phase           koordinator.ReservationPhase
	reason, message string
	// expiry calls when it expires; nil for never.
	expiry clock.Timer
	// lostAt is when its node was first missing; zero: it is.
	lostAt time.Time
	// hungry: an owner was tried there in vain when the account had changed vainAt times.
	hungry bool
	vainAt uint32
}

// New returns Reservations without any.
func New(o Options) *Reservations {
	if o.Lead == nil {
		o.Lead = new(lead.Gate)
	}
	rs := &Reservations{
		Options: o, read: make(chan struct{}), all: map[types.UID]*item{},
		dirty: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.UID]()),
		users: map[types.UID]map[types.UID]*corev1.Pod{}, bookOf: map[types.UID]types.UID{},
		wanting: map[types.UID]*corev1.Pod{}, vain: map[types.UID]*inVain{},
	}
	rs.Lead.Then(rs.begin)
	return rs
}

// Attach gives them the scheduler's cache and queue, without which nothing is planned or held.
func (rs *Reservations) Attach(c Cache, q Queue) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.cache, rs.queue = c, q
	for _, it := range rs.all {
		rs.sync(it)
	}
}

// ObjectSeen takes an object in.
func (rs *Reservations) ObjectSeen(o *koordinator.Reservation) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[o.UID]
	if !rs.Ours(wire.ReservationScheduler(o)) {
		if it != nil {
			rs.drop(it)
		}
		return
	}
	rs.any.Store(true)
	if it == nil {
		it = &item{taking: map[types.UID]*corev1.Pod{}, phase: koordinator.ReservationPending}
		rs.all[o.UID] = it
	}
	before := it.read
	it.object, it.version = o, o.ResourceVersion
	it.read, it.wrong = rs.understand(o)
	rs.follow(it, before)
	rs.sync(it)
	rs.dirty.Add(o.UID)
}

// understand reads an object. The error says what is not served.
func (rs *Reservations) understand(o *koordinator.Reservation) (*wire.Reservation, error) {
	if rs.OwnersNeedNamespace {
		if err := wire.CheckOwnerNamespaces(o); err != nil {
			return nil, err
		}
	}
	return wire.ReadReservation(o)
}

// follow draws conclusions from what the object says.
func (rs *Reservations) follow(it *item, before *wire.Reservation) {
	r := it.read
	switch {
	case r == nil && it.stage == placed && before != nil:
		it.read = before // what is held was right when it was found
		it.message = it.wrong.Error()
		return
	case r == nil:
		return
	case r.Over():
		rs.end(it, r.Phase, it.reason, it.message)
		return
	case it.stage == placed:
		r.Pod = before.Pod // what is held is held
	case it.stage == waiting && r.Node != "" && r.Version != it.disbelieved:
		rs.adopt(it)
	}
	rs.callAtExpiry(it)
}

// adopt believes the place that the object says, until a report can be asked.
func (rs *Reservations) adopt(it *item) {
	r := it.read
	if r.DecisionErr != nil {
		it.message = "its status is not believed: " + r.DecisionErr.Error()
		return
	}
	if r.Decision != nil {
		if err := wire.CheckDecision(r.Pod, r.Decision); err != nil {
			it.message = "its status is not believed: " + err.Error()
			return
		}
	}
	it.stage, it.node, it.decision, it.unchecked = placed, r.Node, r.Decision, true
	it.phase, it.reason, it.message = koordinator.ReservationAvailable, koordinator.ReasonReservationAvailable, ""
}

// callAtExpiry has a Reservation expire in time. There is one timer for each.
func (rs *Reservations) callAtExpiry(it *item) {
	it.unwind()
	if at, uid := it.read.Expires, it.read.UID; !at.IsZero() {
		it.expiry = later.Call(rs.Clock, max(0, at.Sub(rs.Clock.Now())), func() { rs.expire(uid) })
	}
}

// unwind stops the timer of the expiry.
func (it *item) unwind() {
	if it.expiry != nil {
		it.expiry.Stop()
		it.expiry = nil
	}
}

func (rs *Reservations) expire(uid types.UID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[uid]
	if it == nil || it.read == nil || it.stage == over || it.read.Expires.IsZero() {
		return
	}
	if rs.Clock.Now().Before(it.read.Expires) { // the clock was set back, or the object has changed
		rs.callAtExpiry(it)
		return
	}
	rs.end(it, koordinator.ReservationFailed, koordinator.ReasonReservationExpired, "it has expired at "+it.read.Expires.UTC().Format(time.RFC3339))
	rs.sync(it)
	rs.dirty.Add(uid)
}

// end ends a Reservation: nothing is held, and never will be.
func (rs *Reservations) end(it *item, phase koordinator.ReservationPhase, reason, message string) {
	it.stage, it.phase, it.reason, it.message = over, phase, reason, message
	it.unwind()
}

// ObjectGone says that an object is gone.
func (rs *Reservations) ObjectGone(uid types.UID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if it := rs.all[uid]; it != nil {
		rs.drop(it)
	}
}

func (rs *Reservations) drop(it *item) {
	it.stage = over
	it.unwind()
	rs.sync(it)
	delete(rs.all, it.object.UID)
	for uid := range rs.users[it.object.UID] {
		delete(rs.bookOf, uid)
	}
	delete(rs.users, it.object.UID)
}

// nodeGrace is how long a Reservation keeps its place on a node that is not there: a Node is
// deleted and registered again in a moment, with the same machine.
const nodeGrace = time.Minute

// NodeGone says that a node is not there any more.
func (rs *Reservations) NodeGone(name string) {
	if !rs.any.Load() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, it := range rs.all {
		if it.stage == placed && it.node == name {
			rs.lose(it)
		}
	}
}

// lose ends a Reservation if its node does not come back. The caller holds the lock.
func (rs *Reservations) lose(it *item) {
	if !it.lostAt.IsZero() {
		return
	}
	it.lostAt = rs.Clock.Now()
	uid := it.object.UID
	later.Call(rs.Clock, nodeGrace, func() { rs.lost(uid) })
}

// lost ends a Reservation whose node has not come back: what was held there is not.
func (rs *Reservations) lost(uid types.UID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[uid]
	if it == nil || it.stage != placed || it.lostAt.IsZero() || rs.Clock.Now().Sub(it.lostAt) < nodeGrace {
		return
	}
	if it.lostAt = (time.Time{}); rs.HasNode(it.node) {
		return
	}
	rs.end(it, koordinator.ReservationFailed, nodeGone, "node "+it.node+" is gone")
	rs.sync(it)
	rs.dirty.Add(uid)
}

// NodeBack says that a node is there. What was held on it before is held if its next report allows.
func (rs *Reservations) NodeBack(name string) {
	if !rs.any.Load() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, it := range rs.all {
		if it.stage == placed && it.node == name && !it.lostAt.IsZero() {
			it.lostAt, it.unchecked = time.Time{}, true
			rs.sync(it)
		}
	}
}

// nodeGone is the reason of a Reservation whose node is gone.
const nodeGone = "NodeGone"

// Synced says that all pods that were there at the start have been seen.
func (rs *Reservations) Synced() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.synced = true
}

// ownerOf returns the Reservation that a pod was bound for; "" for none. What a pod itself says may
// be written at any time, by anybody who may write the pod. Releases that wrote no such word have
// bound the pods that were there at the start: of those with a placement their own word is taken.
// The caller holds the lock.
func (rs *Reservations) ownerOf(pod *corev1.Pod) types.UID {
	if bound, said := wire.ReadBoundFor(pod); said {
		return bound.Reservation
	}
	if rs.synced || pod.Spec.NodeName == "" || !wire.HasPlacement(pod) {
		return ""
	}
	return wire.ReadAllocated(pod)
}

// PodSeen takes a pod in.
func (rs *Reservations) PodSeen(pod *corev1.Pod) {
	if !rs.any.Load() && wire.ReadAllocated(pod) == "" {
		return
	}
	if wire.Ended(pod) {
		rs.PodGone(pod)
		return
	}
	if pod.Spec.NodeName == "" {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.wanting, pod.UID)
	delete(rs.vain, pod.UID)
	if of, known := rs.bookOf[pod.UID]; known {
		rs.users[of][pod.UID] = pod // the watch has it as well: nothing older is kept
		return
	}
	of := rs.ownerOf(pod)
	if of == "" {
		return
	}
	rs.bookOf[pod.UID] = of
	if rs.users[of] == nil {
		rs.users[of] = map[types.UID]*corev1.Pod{}
	}
	rs.users[of][pod.UID] = pod
	rs.usersChanged(of, pod)
}

// PodGone says that a pod is gone, or has ended.
func (rs *Reservations) PodGone(pod *corev1.Pod) {
	if !rs.any.Load() && wire.ReadAllocated(pod) == "" {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.forget(pod)
}

// forget forgets a pod. The caller holds the lock.
func (rs *Reservations) forget(pod *corev1.Pod) {
	delete(rs.wanting, pod.UID)
	delete(rs.vain, pod.UID)
	of, ok := rs.bookOf[pod.UID]
	if !ok {
		of = rs.ownerOf(pod) // it may have been shown neither bound nor ended
	}
	if of == "" {
		return
	}
	delete(rs.bookOf, pod.UID)
	if delete(rs.users[of], pod.UID); len(rs.users[of]) == 0 {
		delete(rs.users, of)
	}
	rs.usersChanged(of, pod)
}

// sweepEvery is how often what is remembered of pods is compared with the pods that exist.
const sweepEvery = time.Minute

// Until ctx ends, Sweep forgets pods that are gone. uid returns the UID of the pod of that name; ""
// where there is none.
func (rs *Reservations) Sweep(ctx context.Context, uid func(namespace, name string) types.UID) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-rs.Clock.After(sweepEvery):
			rs.sweep(uid)
		}
	}
}

func (rs *Reservations) sweep(uid func(namespace, name string) types.UID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var dead []*corev1.Pod
	look := func(pod *corev1.Pod) {
		if uid(pod.Namespace, pod.Name) != pod.UID {
			dead = append(dead, pod)
		}
	}
	for _, pods := range rs.users {
		for _, pod := range pods {
			look(pod)
		}
	}
	for _, pod := range rs.wanting {
		look(pod)
	}
	for _, v := range rs.vain {
		look(v.pod)
	}
	for _, it := range rs.all {
		for _, pod := range it.taking {
			look(pod)
		}
	}
	for _, pod := range dead {
		rs.forget(pod)
		for of, it := range rs.all {
			if it.taking[pod.UID] != nil {
				rs.usersChanged(of, pod)
			}
		}
	}
}

func (rs *Reservations) usersChanged(of types.UID, pod *corev1.Pod) {
	it := rs.all[of]
	if it == nil {
		return
	}
	delete(it.taking, pod.UID)
	rs.sync(it)
	rs.dirty.Add(of)
	rs.wake(it)
}

// owners are the pods that have something of the place, by UID: the ones that are bound there, and
// the ones that will be. What a pod says about itself counts only if it owns the place.
func (rs *Reservations) owners(it *item) []*corev1.Pod {
	out := rs.bound(it)
	for _, pod := range it.taking {
		out = append(out, pod)
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return out
}

func (rs *Reservations) bound(it *item) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range rs.users[it.object.UID] {
		if pod.Spec.NodeName == it.node && it.read.Owns(pod) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return out
}

// sync brings account, cache and queue to what the Reservation is. The caller holds the lock.
func (rs *Reservations) sync(it *item) {
	if rs.cache == nil || it.read == nil && it.stage == waiting {
		rs.unqueue(it)
		return
	}
	if it.stage == placed && it.read.Once && len(rs.bound(it)) > 0 {
		rs.end(it, koordinator.ReservationSucceeded, koordinator.ReasonReservationSucceeded, "an owner has used it up")
	}
	switch it.stage {
	case waiting:
		rs.release(it)
		rs.enqueue(it)
	case placed:
		rs.unqueue(it)
		rs.hold(it)
	case over:
		rs.unqueue(it)
		rs.release(it)
	}
}

func (rs *Reservations) enqueue(it *item) {
	pod := it.read.Pod
	switch {
	case it.queued == nil:
		rs.queue.Add(context.Background(), pod)
	case !same(it.queued, pod):
		rs.queue.Update(context.Background(), it.queued, pod)
	default:
		return
	}
	it.queued = pod
}

func (rs *Reservations) unqueue(it *item) {
	if it.queued != nil {
		rs.queue.Delete(it.queued)
		rs.Done(string(it.queued.UID))
		it.queued = nil
	}
}

// hold has account and cache hold what is left of the place. Who has left the node has nothing of
// it any more.
func (rs *Reservations) hold(it *item) {
	owners := rs.owners(it)
	account := rs.Account(it.node)
	it.had = slices.DeleteFunc(it.had, func(uid string) bool { return !account.View().Knows(uid) })
	for _, pod := range owners {
		if !slices.Contains(it.had, string(pod.UID)) {
			it.had = append(it.had, string(pod.UID))
		}
	}
	rest := it.read.Rest(owners)
	h := ledger.Holding{UID: string(it.read.UID), Owners: it.had, More: it.read.More, Once: it.read.Once}
	if it.decision != nil {
		h.Held = it.decision.Held()
	}
	if rest != nil {
		if ask, err := wire.ReadPod(rest); err == nil {
			ask.Request.Rules.MayWithhold = true // it has what it holds
			h.Request = &ask.Request
		}
	}
	account.Hold(h)
	var held *corev1.Pod
	if rest != nil {
		held = wire.Held(rest, it.node)
	}
	rs.keep(it, held)
}

// keep brings the pod in the cache up to date.
func (rs *Reservations) keep(it *item, held *corev1.Pod) {
	var err error
	switch was := it.cached; {
	case was == nil && held == nil:
	case was == nil:
		err = rs.cache.AddPod(rs.Logger, held)
	case held == nil:
		err = rs.cache.RemovePod(rs.Logger, was)
	case !same(was, held):
		err = rs.cache.UpdatePod(rs.Logger, was, held)
	}
	if err != nil {
		rs.Logger.Error(err, "What a Reservation holds is not what the scheduler's cache has", "reservation", it.object.Name, "node", it.node)
	}
	it.cached = held
}

// release has account and cache hold nothing.
func (rs *Reservations) release(it *item) {
	if it.node == "" {
		return
	}
	freed := it.cached
	released := rs.Account(it.node).Release(string(it.object.UID))
	rs.keep(it, nil)
	if released {
		node := it.node
		go rs.Changed(node, freed)
	}
	if it.stage == waiting {
		it.node, it.decision, it.had, it.unchecked = "", nil, nil, false
	}
}

// same says whether two pods that stand for one place ask for the same.
func same(a, b *corev1.Pod) bool {
	return slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, func(x, y corev1.Container) bool {
		return x.Name == y.Name && sameList(x.Resources.Requests, y.Resources.Requests) && sameList(x.Resources.Limits, y.Resources.Limits)
	}) && a.Spec.NodeName == b.Spec.NodeName && a.ResourceVersion == b.ResourceVersion
}

func sameList(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if o, ok := b[name]; !ok || q.Cmp(o) != 0 {
			return false
		}
	}
	return true
}

// unbelieved takes back what was believed from objects and does not hold: the account has CPUs of
// others there, or the node is gone.
func (rs *Reservations) unbelieved() {
	if !rs.Lead.Leads() {
		return // the leader finds out
	}
	for uid, it := range rs.all {
		if it.stage != placed || !it.unchecked {
			continue
		}
		if !rs.HasNode(it.node) {
			rs.lose(it)
			continue
		}
		if why, known := rs.Account(it.node).View().Displaced(string(uid)); !known {
			continue
		} else if it.unchecked = false; why != "" {
			it.stage, it.phase, it.reason = waiting, koordinator.ReservationPending, koordinator.ReasonReservationUnschedulable
			it.disbelieved = it.object.ResourceVersion
			it.message = "its place on node " + it.node + " is not free: " + why
		} else {
			rs.wake(it)
			continue
		}
		rs.sync(it)
		rs.dirty.Add(uid)
	}
}

// Stir says that something has changed on some node: what was believed may be asked, and places
// that owners could not have may have come back.
func (rs *Reservations) Stir() {
	if !rs.any.Load() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.unbelieved()
	for _, it := range rs.all {
		if it.hungry && it.stage == placed && rs.Account(it.node).View().Stamp().Count != it.vainAt {
			it.hungry = false
			rs.wake(it)
		}
	}
}

// Open says which Reservation the pod in its cycle is sent to: its UID and node; "" for none.
func (rs *Reservations) Open(pod *corev1.Pod) (uid, node string) {
	if !rs.any.Load() {
		return "", ""
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.open == nil || rs.now.UID != pod.UID {
		return "", ""
	}
	return string(rs.open.object.UID), rs.open.node
}

// readLimit is how long the first pod waits for the Reservations to be read. A kind that the API
// server cannot serve must not stop everything else.
const readLimit = 30 * time.Second

// Between is called before the scheduler takes the next pod: the cycle before has ended, except for
// what is bound.
func (rs *Reservations) Between() {
	if !rs.Lead.Leads() {
		rs.awaitRead()
		rs.Lead.Open()
	}
	if !rs.any.Load() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if it := rs.open; it != nil { // its owner has not taken it
		delete(it.taking, rs.now.UID)
		rs.open = nil
		rs.sync(it)
	} else if rs.now != nil {
		delete(rs.vain, rs.now.UID) // it was tried without
	}
	if missed := rs.now; rs.missed && rs.queue != nil {
		go rs.queue.Activate(rs.Logger, map[string]*corev1.Pod{missed.Namespace + "/" + missed.Name: missed})
	}
	rs.now, rs.missed = nil, false
	rs.unbelieved()
}

// awaitRead waits for the ones that were there at the start.
func (rs *Reservations) awaitRead() {
	select {
	case <-rs.read:
	case <-rs.Clock.After(readLimit):
		rs.Logger.Info("Reservations cannot be read; pods are placed as if there were none", "waited", readLimit)
	}
}

// begin writes what has to be written, now that this process leads.
func (rs *Reservations) begin() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for uid := range rs.all {
		rs.dirty.Add(uid)
	}
}

// Begins is called with the pod that the scheduler has taken. An owner is sent to its place.
func (rs *Reservations) Begins(pod *corev1.Pod) {
	affinity, err := wire.ReadReservationAffinity(pod)
	if err != nil || !rs.any.Load() && affinity == nil || wire.OfReservation(pod) || !rs.Ours(pod.Spec.SchedulerName) || pod.Spec.SchedulingGroup != nil || wire.InGang(pod) {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.unbelieved()
	rs.now = pod
	wants := affinity != nil // and nothing else will do
	var best *item
	for uid, it := range rs.all {
		if it.read == nil || it.stage == over || !it.read.Owns(pod) || !affinity.Allows(it.read) {
			continue
		}
		wants = true
		if rs.takes(it, pod, affinity) && !rs.vain[pod.UID].has(uid) && (best == nil || before(it, best)) {
			best = it
		}
	}
	delete(rs.wanting, pod.UID)
	switch {
	case best != nil:
		rs.open = best
		best.taking[pod.UID] = pod
		rs.sync(best)
	case wants:
		rs.wanting[pod.UID] = pod
	}
}

// takes says whether an owner may be sent to a place.
func (rs *Reservations) takes(it *item, pod *corev1.Pod, affinity *wire.ReservationAffinity) bool {
	if it.stage != placed || it.unchecked || it.read.Closed || !affinity.Tolerates(it.read, pod) {
		return false
	}
	owners := rs.owners(it)
	return !(it.read.Once && len(owners) > 0) && it.read.Fits(pod, owners)
}

// before says which of two Reservations an owner of both is sent to: the older one.
func before(a, b *item) bool {
	x, y := a.object.CreationTimestamp, b.object.CreationTimestamp
	if !x.Equal(&y) {
		return x.Before(&y)
	}
	return a.object.Name < b.object.Name
}

// Took says that the pod in its cycle has its place.
func (rs *Reservations) Took(pod *corev1.Pod) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.open != nil && rs.now.UID == pod.UID {
		rs.open = nil
	}
}

// GaveBack says that a pod does not get the place that it took. The account has forgotten it.
func (rs *Reservations) GaveBack(pod *corev1.Pod, uid string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[types.UID(uid)]
	if it == nil || it.taking[pod.UID] == nil {
		return
	}
	delete(it.taking, pod.UID)
	rs.sync(it)
}

// InVain says that a pod cannot have its place: it has to be tried as any other.
func (rs *Reservations) InVain(pod *corev1.Pod, uid string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if v := rs.vain[pod.UID]; v == nil {
		rs.vain[pod.UID] = &inVain{pod, []types.UID{types.UID(uid)}}
	} else if !v.has(types.UID(uid)) {
		v.of = append(v.of, types.UID(uid))
	}
	if it := rs.all[types.UID(uid)]; it != nil && it.stage == placed {
		it.hungry, it.vainAt = true, rs.Account(it.node).View().Stamp().Count
	}
}

// Allocated is what the Binding of an owner is to say; "" for a Reservation that is gone.
func (rs *Reservations) Allocated(uid string) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if it := rs.all[types.UID(uid)]; it != nil && it.read != nil {
		return it.read.WriteAllocated()
	}
	return ""
}

// wake has owners that wait be tried: a place is there.
func (rs *Reservations) wake(it *item) {
	if it.stage != placed || rs.queue == nil {
		return
	}
	found := map[string]*corev1.Pod{}
	for uid, pod := range rs.wanting {
		if affinity, err := wire.ReadReservationAffinity(pod); err != nil || !it.read.Owns(pod) || !affinity.Allows(it.read) {
			continue
		}
		found[pod.Namespace+"/"+pod.Name] = pod
		rs.missed = rs.missed || rs.now != nil && rs.now.UID == uid // the queue does not have it now
	}
	if queue := rs.queue; len(found) > 0 {
		go queue.Activate(rs.Logger, found)
	}
}

// Wants says whether a pod still stands for a Reservation without a place.
func (rs *Reservations) Wants(uid types.UID) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[uid]
	return it != nil && it.queued != nil
}

// Raise has a pod that stands for a Reservation, and for which a node was found, be assumed there
// as one that nobody evicts.
func (rs *Reservations) Raise(info *framework.QueuedPodInfo) {
	if !wire.OfReservation(info.Pod) {
		return
	}
	if raised, err := framework.NewPodInfo(wire.Held(info.Pod, "")); err == nil {
		info.PodInfo = raised
	}
}

// Failed takes the place of the scheduler's own handling of a failure for pods that stand for
// Reservations: it knows of none that is not in the API. It says whether the pod is one.
func (rs *Reservations) Failed(info *framework.QueuedPodInfo, status *fwk.Status) bool {
	if !wire.OfReservation(info.Pod) {
		return false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[info.Pod.UID]
	if it == nil || it.queued == nil {
		rs.queue.Done(info.Pod.UID)
		return true
	}
	rs.tell(it, status.Message())
	rs.requeue(it, info, status)
	return true
}

// requeue puts the pod back, with what is known about why it failed.
func (rs *Reservations) requeue(it *item, info *framework.QueuedPodInfo, status *fwk.Status) {
	info.ClearRejectorPlugins()
	if fit, ok := status.AsError().(*framework.FitError); ok { //nolint:errorlint // as the scheduler itself
		info.UnschedulablePlugins, info.PendingPlugins = fit.Diagnosis.UnschedulablePlugins, fit.Diagnosis.PendingPlugins
	}
	fresh, err := framework.NewPodInfo(it.queued.DeepCopy())
	if err == nil {
		info.PodInfo = fresh
		err = rs.queue.AddUnschedulableIfNotPresent(rs.Logger, info, rs.queue.SchedulingCycle())
	}
	if err != nil {
		rs.Logger.Error(err, "A Reservation cannot be tried again", "reservation", it.object.Name)
		rs.queue.Done(it.object.UID)
	}
}

// tell says why a Reservation has no place, in its condition and in an event.
func (rs *Reservations) tell(it *item, why string) {
	if it.message == why {
		return
	}
	it.reason, it.message = koordinator.ReasonReservationUnschedulable, why
	rs.dirty.Add(it.object.UID)
	rs.Events.Eventf(it.reference(), nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", clip.Text(why, clip.Event))
}

func (it *item) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: koordinator.GroupVersion.String(), Kind: "Reservation", Name: it.object.Name, UID: it.object.UID}
}
