package reservation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/wire"
)

// Open returns the UID and the node of the Reservation whose place is open for the pod, or "" and
// "". A place can be open only for the pod of the current cycle.
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

// readLimit is the time after the start for which discover keeps asking if the API server forbids
// reading Reservations, because a starting API server forbids every request for a while. It is also
// the interval at which awaitRead logs that it still waits.
const readLimit = 30 * time.Second

// Between is called before the scheduler takes the next pod. The last scheduling cycle has then
// ended, but its Binding may still be running. Between closes the place that is open for the last
// pod if the pod has not taken it.
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
	if it := rs.open; it != nil { // the owner has not taken the place
		delete(it.taking, rs.now.UID)
		rs.open = nil
		rs.sync(it)
		if rs.vain[rs.now.UID].has(it.object.UID) {
			it.vainAt = rs.changes(it) // changes by the pod's own attempt are no reason to try again
		}
	} else if rs.now != nil { // the pod was tried without a Reservation
		tried := rs.vain[rs.now.UID]
		delete(rs.vain, rs.now.UID)
		if tried != nil {
			rs.wakeWhereChanged(tried.of)
		}
	}
	if missed := rs.now; rs.missed && rs.queue != nil {
		go rs.queue.Activate(rs.Logger, map[string]*corev1.Pod{missed.Namespace + "/" + missed.Name: missed})
	}
	rs.now, rs.missed = nil, false
	rs.unbelieved()
}

// awaitRead waits until the Reservations that existed at the start have been read. If the scheduler
// placed pods earlier, they could get resources that Reservations hold.
func (rs *Reservations) awaitRead() {
	for {
		select {
		case <-rs.read:
			return
		case <-rs.Clock.After(readLimit):
			rs.Logger.Info("Reservations have not been read; no pod is placed before", "waited", readLimit)
		}
	}
}

// Begins is called at the beginning of a scheduling cycle, with the cycle's pod. If the pod owns
// Reservations and fits into the place of one, Begins opens the place of the oldest such
// Reservation for the pod.
func (rs *Reservations) Begins(pod *corev1.Pod) {
	affinity, err := wire.ReadReservationAffinity(pod)
	if err != nil || !rs.any.Load() && affinity == nil || wire.OfReservation(pod) || !rs.Ours(pod.Spec.SchedulerName) || pod.Spec.SchedulingGroup != nil || wire.InGang(pod) {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.unbelieved()
	rs.now = pod
	wants := affinity != nil // a pod with an affinity requires a Reservation
	var best *item
	for uid, it := range rs.all {
		if it.read == nil || it.stage == over || !it.read.Owns(pod) || !affinity.Allows(it.read) {
			continue
		}
		wants = true
		if rs.vain[pod.UID].has(uid) || best != nil && !before(it, best) || !it.opens(pod, affinity) {
			continue
		}
		if it.fits(pod, rs.users.owners(it)) {
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

// Took records that the pod of the current cycle has taken the part of the open place that it
// needs.
func (rs *Reservations) Took(pod *corev1.Pod) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.open != nil && rs.now.UID == pod.UID {
		rs.open = nil
	}
}

// GaveBack records that a pod gives back the part of a place that it took. The parameter uid is the
// UID of the Reservation. The node's account must already have removed the pod.
func (rs *Reservations) GaveBack(pod *corev1.Pod, uid string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[types.UID(uid)]
	if it == nil || it.taking[pod.UID] == nil {
		return
	}
	delete(it.taking, pod.UID)
	rs.sync(it)
	rs.wake(it)
}

// InVain records that the pod did not fit into the place that a Reservation holds, and why. The
// pod's next attempt does not use that Reservation.
func (rs *Reservations) InVain(pod *corev1.Pod, uid, why string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	v := rs.vain[pod.UID]
	if v == nil {
		v = &inVain{pod: pod}
		rs.vain[pod.UID] = v
	}
	if !v.has(types.UID(uid)) {
		v.of = append(v.of, types.UID(uid))
	}
	if it := rs.all[types.UID(uid)]; it != nil && it.stage == placed {
		it.hungry, it.vainAt = true, rs.changes(it)
		v.why = fmt.Sprintf("Reservation %s on node %s: %s", it.object.Name, it.node, why)
	}
}

// WhyInVain names the last Reservation into whose place the pod did not fit, and the reason. It
// returns "" if there is none, or if the pod has been tried without a Reservation since.
func (rs *Reservations) WhyInVain(pod *corev1.Pod) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if v := rs.vain[pod.UID]; v != nil {
		return v.why
	}
	return ""
}

// Allocated returns the value of wire.AllocatedAnnotation for the Binding of an owner. It returns
// "" if the Reservation is gone.
func (rs *Reservations) Allocated(uid string) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if it := rs.all[types.UID(uid)]; it != nil && it.read != nil {
		return it.read.WriteAllocated()
	}
	return ""
}

// Wants reports whether the pod with the given UID stands for a Reservation that still needs a
// place.
func (rs *Reservations) Wants(uid types.UID) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[uid]
	return it != nil && it.queued != nil
}

// Raise is called when a node was found for a pod. If the pod stands for a Reservation, Raise
// replaces it with the version for the scheduler's cache, which cannot be evicted (wire.Held).
func Raise(info *framework.QueuedPodInfo) {
	if !wire.OfReservation(info.Pod) {
		return
	}
	if raised, err := framework.NewPodInfo(wire.Held(info.Pod, "")); err == nil {
		info.PodInfo = raised
	}
}

// Failed handles a failed attempt of a pod that stands for a Reservation, which kube-scheduler
// cannot do because the pod is not in the API. It returns false for any other pod.
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
