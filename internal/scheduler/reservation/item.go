package reservation

import (
	"cmp"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

type stage uint8

const (
	waiting stage = iota
	placed
	over
)

type item struct {
	object *koordinator.Reservation
	// version is the newest known version of the object. version may come from the answer to a
	// write that the watch has not shown yet.
	version string
	// read is the parsed object, or nil if the object cannot be parsed. wrong is the error. A
	// placed item keeps the last valid value of read.
	read  *wire.Reservation
	wrong error

	stage stage
	node  string
	// decision is Berth's decision about the place, or nil if the kubelet decides on the node.
	decision *placement.Decision
	// unchecked means that no report has confirmed the place since it was read from the object's
	// status, or since its node was missing.
	unchecked bool
	// taking has the pod for which the place is open, and the pods that have taken a part of the
	// place but that the watch has not shown as bound yet.
	taking map[types.UID]*corev1.Pod
	// had lists the UIDs of the pods that use a part of the place, and of former users that are
	// still in the node's account.
	had []string
	// disbelieved is the last version of the object that named a place that was not free, or "".
	// adopt is not called for this version.
	disbelieved string
	// queued is the pod that stands for the Reservation in the scheduling queue or in its cycle.
	// cached is the pod that stands for it in the scheduler's cache. queued and cached may be nil.
	queued, cached *corev1.Pod
	// says is the status to write, without the node and the owners, which the method news adds.
	says wire.ReservationNews
	// expiry is the timer of the Reservation's end, or nil.
	expiry clock.Timer
	// lostAt is the time when the place's node was first found missing. It is zero if the node
	// exists.
	lostAt time.Time
	// hungry means that an owner did not fit into the place. vainAt is the account's change count
	// at that time.
	hungry bool
	vainAt uint32
}

// adopt takes the place from the object's status, if the decision in the object is valid.
// Reservations.unbelieved checks the place when the node has a report.
func (it *item) adopt() {
	r := it.read
	if r.DecisionErr != nil {
		it.says.Message = "its status is ignored: " + r.DecisionErr.Error()
		return
	}
	if r.Decision != nil {
		if err := wire.CheckDecision(r.Pod, r.Decision); err != nil {
			it.says.Message = "its status is ignored: " + err.Error()
			return
		}
	}
	it.stage, it.node, it.decision, it.unchecked = placed, r.Node, r.Decision, true
	it.say(koordinator.ReservationAvailable, koordinator.ReasonReservationAvailable, "")
}

// contradicted reports whether the object's status contradicts the item: the item is over and the
// object is not, or the object has another place.
func (it *item) contradicted() bool {
	r := it.read
	if r == nil || r.Over() {
		return false
	}
	return it.stage == over || it.stage == placed && (r.Node != it.node || !reflect.DeepEqual(r.Decision, it.decision))
}

// end ends a Reservation for good. The caller then calls sync, which releases the place.
func (it *item) end(phase koordinator.ReservationPhase, reason, message string) {
	it.stage = over
	it.say(phase, reason, message)
	it.unwind()
}

func (it *item) say(phase koordinator.ReservationPhase, reason, message string) {
	it.says = wire.ReservationNews{Phase: phase, Reason: reason, Message: message}
}

func (it *item) unwind() {
	if it.expiry != nil {
		it.expiry.Stop()
		it.expiry = nil
	}
}

// opens reports whether the place may be opened for an owner. It does not check if the owner fits.
func (it *item) opens(pod *corev1.Pod, affinity *wire.ReservationAffinity) bool {
	return it.stage == placed && !it.unchecked && !it.read.Closed && affinity.Tolerates(it.read, pod)
}

// fits reports whether an owner fits into the part of the place that owners do not use.
func (it *item) fits(pod *corev1.Pod, owners []*corev1.Pod) bool {
	return !(it.read.Once && len(owners) > 0) && it.read.Fits(pod, owners)
}

// before reports whether Reservation a is older than b. A pod that owns both is tried with the
// older one first.
func before(a, b *item) bool {
	x, y := a.object.CreationTimestamp, b.object.CreationTimestamp
	if !x.Equal(&y) {
		return x.Before(&y)
	}
	return a.object.Name < b.object.Name
}

// news returns the status to write, and whether the object's status differs from it.
func (it *item) news(u *users, now time.Time) (*koordinator.ReservationStatus, bool) {
	switch {
	case it.read == nil && it.stage == over:
		return nil, false
	case it.read == nil:
		return wire.WrongStatus(it.object, it.wrong, now)
	case it.stage == waiting && it.says.Message == "" && it.object.Status.NodeName == "":
		if it.object.Status.Phase != "" {
			return nil, false // it is not known yet whether the Reservation gets a place
		}
	case it.read.Over():
		return nil, false // the object's status already shows the end
	}
	news := it.says
	if news.Node = it.node; it.node != "" {
		news.Owners = byUID(u.there(it))
	}
	news.Reason = cmp.Or(news.Reason, koordinator.ReasonReservationUnschedulable)
	return it.read.Status(it.object, &news, now)
}

func (it *item) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: koordinator.GroupVersion.String(), Kind: "Reservation", Name: it.object.Name, UID: it.object.UID, ResourceVersion: it.object.ResourceVersion}
}
