package reservation

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/wire"
)

// Reservations manages all Reservations that this scheduler serves. It is safe for concurrent use.
type Reservations struct {
	host
	// any means that there is, or was, at least one Reservation. If it is false, most methods
	// return at once.
	any atomic.Bool
	// read is closed by allRead when the Reservations that existed at the start have been read.
	read    chan struct{}
	allRead func()
	// dirty has the Reservations whose status may have to be written.
	dirty workqueue.TypedRateLimitingInterface[types.UID]

	// writes is held during a write to an object, so that only one write runs at a time.
	writes sync.Mutex

	mu     sync.Mutex
	writer Writer
	all    map[types.UID]*item
	users  users
	// wanting has the owners without a node for which no place was opened in their last cycle, by
	// UID.
	wanting map[types.UID]*corev1.Pod
	// vain has, by pod, the Reservations into whose places the pod did not fit since its last
	// attempt without a Reservation.
	vain map[types.UID]*inVain
	// now is the pod of the current cycle. open is the Reservation whose place is open for this
	// pod. Both may be nil.
	now  *corev1.Pod
	open *item
	// missed means that a place for the current pod became available during its cycle.
	missed bool
}

// New returns Reservations that have no objects yet.
func New(o Options) *Reservations {
	rs := &Reservations{
		host: host{Options: o}, read: make(chan struct{}), all: map[types.UID]*item{},
		dirty:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.UID]()),
		users:   users{of: map[types.UID]map[types.UID]*corev1.Pod{}, bookOf: map[types.UID]types.UID{}},
		wanting: map[types.UID]*corev1.Pod{}, vain: map[types.UID]*inVain{},
	}
	rs.allRead = sync.OnceFunc(func() { close(rs.read) })
	rs.Lead.Then(rs.begin)
	return rs
}

// begin is called when this process begins to lead. It sets the expiry timers, and makes Write
// check the status of all Reservations.
func (rs *Reservations) begin() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for uid, it := range rs.all {
		if it.read != nil && it.stage != over {
			rs.callAtExpiry(it)
		}
		rs.dirty.Add(uid)
	}
}

// Attach sets the scheduler's cache and queue. Before Attach, no Reservation is queued or held.
func (rs *Reservations) Attach(c Cache, q Queue) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.cache, rs.queue = c, q
	for _, it := range rs.all {
		rs.sync(it)
	}
}

// ObjectSeen records an object as the watch shows it. If an object is so malformed that it has no
// readable schedulerName, every Berth scheduler writes the error into the object, because
// Koordinator's own scheduler cannot read it either.
func (rs *Reservations) ObjectSeen(o *koordinator.Reservation) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[o.UID]
	if nameless := o.Malformed != "" && o.Spec.Template == nil; !nameless && !rs.Ours(wire.ReservationScheduler(o)) {
		if it != nil {
			rs.drop(it)
		}
		return
	}
	rs.any.Store(true)
	if it == nil {
		it = &item{taking: map[types.UID]*corev1.Pod{}, says: wire.ReservationNews{Phase: koordinator.ReservationPending}}
		rs.all[o.UID] = it
	}
	before := it.read
	it.object, it.version = o, o.ResourceVersion
	it.read, it.wrong = rs.understand(o)
	rs.follow(it, before)
	rs.sync(it)
	rs.dirty.Add(o.UID)
}

// understand parses an object. The error describes a field that is wrong or not supported.
func (o *Options) understand(r *koordinator.Reservation) (*wire.Reservation, error) {
	if o.OwnersNeedNamespace {
		if err := wire.CheckOwnerNamespaces(r); err != nil {
			return nil, err
		}
	}
	return wire.ReadReservation(r)
}

// follow updates the item from its object. If this process does not lead and the object contradicts
// the item, follow uses the object, because the leader may have newer information.
func (rs *Reservations) follow(it *item, before *wire.Reservation) {
	r := it.read
	if !rs.Lead.Leads() && it.contradicted() {
		it.stage = waiting
		it.say(koordinator.ReservationPending, "", "")
		rs.release(it)
	}
	switch {
	case r == nil && it.stage == placed && before != nil:
		it.read = before // the place does not change: the last valid version counts
		it.says.Message = it.wrong.Error()
		return
	case r == nil:
		return
	case r.Over():
		it.end(r.Phase, it.says.Reason, it.says.Message)
		return
	case it.stage == placed:
		r.Pod = before.Pod // the held resources do not change
	case it.stage == waiting && r.Node != "" && r.Version != it.disbelieved:
		it.adopt()
	}
	rs.callAtExpiry(it)
}

// callAtExpiry sets or resets the timer that makes a Reservation expire.
func (rs *Reservations) callAtExpiry(it *item) {
	it.unwind()
	if at, uid := it.read.Expires, it.read.UID; !at.IsZero() {
		it.expiry = later.Call(rs.Clock, max(0, at.Sub(rs.Clock.Now())), func() { rs.expire(uid) })
	}
}

func (rs *Reservations) expire(uid types.UID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[uid]
	if it == nil || it.read == nil || it.stage == over || it.read.Expires.IsZero() || !rs.Lead.Leads() {
		return
	}
	if rs.Clock.Now().Before(it.read.Expires) { // the clock was set back, or the object has changed
		rs.callAtExpiry(it)
		return
	}
	it.end(koordinator.ReservationFailed, koordinator.ReasonReservationExpired, "it has expired at "+it.read.Expires.UTC().Format(time.RFC3339))
	rs.sync(it)
	rs.dirty.Add(uid)
}

// ObjectGone records that an object was deleted.
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
	rs.users.drop(it.object.UID)
}

// nodeGrace is the time for which a Reservation keeps its place on a missing node, because a Node
// may be deleted and registered again shortly after, with the same machine.
const nodeGrace = time.Minute

// NodeGone records that a node no longer exists.
func (rs *Reservations) NodeGone(name string) { rs.placedOn(name, rs.lose) }

// placedOn calls the function do for each Reservation that has its place on a node, with the lock
// held.
func (rs *Reservations) placedOn(name string, do func(*item)) {
	if !rs.any.Load() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, it := range rs.all {
		if it.stage == placed && it.node == name {
			do(it)
		}
	}
}

// lose ends a Reservation after nodeGrace unless its node exists again by then. The caller holds
// the lock.
func (rs *Reservations) lose(it *item) {
	if !it.lostAt.IsZero() {
		return
	}
	it.lostAt = rs.Clock.Now()
	uid := it.object.UID
	later.Call(rs.Clock, nodeGrace, func() { rs.lost(uid) })
}

// lost ends a Reservation whose node has been missing for nodeGrace, if this process leads.
func (rs *Reservations) lost(uid types.UID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[uid]
	if it == nil || it.stage != placed || it.lostAt.IsZero() || rs.Clock.Now().Sub(it.lostAt) < nodeGrace {
		return
	}
	if it.lostAt = (time.Time{}); rs.HasNode(it.node) || !rs.Lead.Leads() {
		return
	}
	it.end(koordinator.ReservationFailed, nodeGone, "node "+it.node+" is gone")
	rs.sync(it)
	rs.dirty.Add(uid)
}

// NodeBack records that a node exists. If the node was missing, the places on it are checked with
// its next report.
func (rs *Reservations) NodeBack(name string) {
	rs.placedOn(name, func(it *item) {
		if !it.lostAt.IsZero() {
			it.lostAt, it.unchecked = time.Time{}, true
			rs.sync(it)
		}
	})
}

// nodeGone is the reason in the status of a Reservation whose node is gone.
const nodeGone = "NodeGone"

// sync brings the node's account, the scheduler's cache and the queue in line with the state of the
// Reservation. If an owner uses the place and allocateOnce is true, sync first ends the
// Reservation. The caller holds the lock.
func (rs *Reservations) sync(it *item) {
	if rs.cache == nil || it.read == nil && it.stage == waiting {
		rs.unqueue(it)
		return
	}
	if it.stage == placed && it.read.Once && len(rs.users.there(it)) > 0 {
		it.end(koordinator.ReservationSucceeded, koordinator.ReasonReservationSucceeded, "an owner has used it, and allocateOnce is true")
	}
	switch it.stage {
	case waiting:
		rs.release(it)
		rs.enqueue(it)
	case placed:
		rs.unqueue(it)
		rs.hold(it, rs.users.owners(it))
	case over:
		rs.unqueue(it)
		rs.release(it)
	}
}

// unbelieved checks the unchecked places whose nodes have reports. If other pods have resources of
// such a place, the Reservation needs a new place. If the place's node is gone, lose handles the
// Reservation. The caller holds the lock.
func (rs *Reservations) unbelieved() {
	if !rs.Lead.Leads() {
		return // only the leader checks
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
			it.stage, it.disbelieved = waiting, it.object.ResourceVersion
			it.say(koordinator.ReservationPending, koordinator.ReasonReservationUnschedulable, "its place on node "+it.node+" is not free: "+why)
		} else {
			rs.wake(it)
			continue
		}
		rs.sync(it)
		rs.dirty.Add(uid)
	}
}

// Stir is called after a node has changed. It checks unchecked places, and retries owners that did
// not fit into a place whose node has changed since.
func (rs *Reservations) Stir() {
	if !rs.any.Load() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.unbelieved()
	var hungry []types.UID
	for uid, it := range rs.all {
		if it.hungry && !rs.tryPending(uid) {
			hungry = append(hungry, uid)
		}
	}
	rs.wakeWhereChanged(hungry)
}

// tryPending reports whether some pod did not fit into the Reservation and must still be tried
// without a Reservation. Such a pod is not in rs.wanting, so the method wake would not find it.
func (rs *Reservations) tryPending(uid types.UID) bool {
	for _, v := range rs.vain {
		if v.has(uid) {
			return true
		}
	}
	return false
}

// wakeWhereChanged wakes the owners of those Reservations whose node has changed since an owner did
// not fit into the place.
func (rs *Reservations) wakeWhereChanged(uids []types.UID) {
	for _, uid := range uids {
		if it := rs.all[uid]; it != nil && it.hungry && it.stage == placed && rs.changes(it) != it.vainAt {
			it.hungry = false
			rs.wake(it)
		}
	}
}

func (rs *Reservations) changes(it *item) uint32 { return rs.Account(it.node).View().Stamp().Count }

// wake activates the owners that wait for this Reservation's place.
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
		rs.missed = rs.missed || rs.now != nil && rs.now.UID == uid // Activate does not find the pod, because the pod is in its cycle
	}
	if queue := rs.queue; len(found) > 0 {
		go queue.Activate(rs.Logger, found)
	}
}

// tell writes an event that explains why a Reservation has no place, and makes Write put the reason
// into the Reservation's status.
func (rs *Reservations) tell(it *item, why string) {
	if it.says.Message == why {
		return
	}
	it.says.Reason, it.says.Message = koordinator.ReasonReservationUnschedulable, why
	rs.dirty.Add(it.object.UID)
	rs.Events.Eventf(it.reference(), nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", why)
}
