package reservation

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
)

// onNode returns a pod on a node whose annotation claims resources of a Reservation.
func onNode(name string, of types.UID) *corev1.Pod {
	pod := ownerOf(name, "r", 1)
	pod.Spec.NodeName = "n"
	pod.Annotations = map[string]string{wire.AllocatedAnnotation: fmt.Sprintf(`{"name":"r","uid":%q}`, of)}
	return pod
}

// bindFor adds the Reservation as the pod's Binding does.
func bindFor(pod *corev1.Pod, of types.UID) *corev1.Pod {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, wire.BoundForAnnotation, wire.WriteBoundFor(pod, wire.BoundFor{Reservation: of}))
	return pod
}

// TestWhatAPodSaysOfReservationsIsNotKept: every user who may write a pod can name Reservations in
// it, as often as they like, and even ones that do not exist.
func TestWhatAPodSaysOfReservationsIsNotKept(t *testing.T) {
	w := newWorld(t)
	for i := range 1000 {
		pod := onNode("p", types.UID(fmt.Sprint("made-up-", i)))
		if i%2 == 0 {
			pod.Annotations[wire.PlacementAnnotation] = "{}"
		}
		w.rs.PodSeen(pod)
	}
	if len(w.rs.users.of)+len(w.rs.users.bookOf) > 0 {
		t.Errorf("%d Reservations and %d pods are remembered: want none", len(w.rs.users.of), len(w.rs.users.bookOf))
	}
	bound := bindFor(onNode("q", "first"), "first")
	for i := range 1000 {
		bound = bound.DeepCopy()
		bound.Annotations[wire.AllocatedAnnotation] = fmt.Sprintf(`{"uid":"made-up-%d"}`, i)
		w.rs.PodSeen(bound)
	}
	if len(w.rs.users.of) != 1 || len(w.rs.users.bookOf) != 1 || w.rs.users.of["first"][bound.UID] != bound {
		t.Errorf("remembered: %v and %v, want the pod as it is now, for the Reservation that it was bound for", w.rs.users.of, w.rs.users.bookOf)
	}
	w.rs.PodGone(bound)
	if len(w.rs.users.of)+len(w.rs.users.bookOf) > 0 {
		t.Errorf("the pod is gone, and remembered: %v and %v", w.rs.users.of, w.rs.users.bookOf)
	}
}

// TestNobodyUsesUpAReservationByWhatHeSays: a pod with nodeName never passed the scheduler.
func TestNobodyUsesUpAReservationByWhatHeSays(t *testing.T) {
	w := newWorld(t)
	uid := w.reservation("r", 4)
	if err := w.cycle(uid); err != nil {
		t.Fatal(err)
	}
	w.rs.PodSeen(onNode("thief", uid))
	if got := w.phase(uid); got != koordinator.ReservationAvailable || w.free() != 4 {
		t.Errorf("the Reservation is %s and leaves %d CPUs: want Available and 4", got, w.free())
	}
	w.rs.PodSeen(bindFor(onNode("owner", uid), uid))
	if got := w.phase(uid); got != koordinator.ReservationSucceeded {
		t.Errorf("the Reservation is %s: want Succeeded", got)
	}
}

// TestWhatIsRememberedIsSwept: the event of a pod's deletion may be lost, and the scheduler may ask
// about a pod that is gone.
func TestWhatIsRememberedIsSwept(t *testing.T) {
	w := newWorld(t)
	uid := w.reservation("r", 4, many)
	if err := w.cycle(uid); err != nil {
		t.Fatal(err)
	}
	w.rs.PodSeen(bindFor(onNode("owner", uid), uid))
	lost := ownerOf("lost", "r", 9) // too large, so that it waits
	w.rs.Begins(lost)
	w.rs.InVain(lost, string(uid), "it waits")
	w.rs.Between()
	w.rs.InVain(ownerOf("vain", "r", 1), string(uid), "it waits")
	w.rs.Begins(ownerOf("taking", "r", 1))
	w.rs.sweep(func(_, _ string) types.UID { return "" })
	it := w.rs.all[uid]
	if len(w.rs.users.of)+len(w.rs.users.bookOf)+len(w.rs.wanting)+len(w.rs.vain)+len(it.taking) > 0 {
		t.Errorf("users %v, books %v, wanting %v, in vain %v, taking %v: want none", w.rs.users.of, w.rs.users.bookOf, w.rs.wanting, w.rs.vain, it.taking)
	}
	w.rs.PodSeen(bindFor(onNode("owner", uid), uid))
	w.rs.sweep(func(_, name string) types.UID { return onNode(name, uid).UID })
	if len(w.rs.users.bookOf) != 1 {
		t.Errorf("a pod that is there is forgotten: %v", w.rs.users.bookOf)
	}
	w.rs.ObjectGone(uid)
	if len(w.rs.users.of)+len(w.rs.users.bookOf) > 0 {
		t.Errorf("the Reservation is gone, and remembered: %v and %v", w.rs.users.of, w.rs.users.bookOf)
	}
}

// TestWhoHasLeftIsForgotten, even if a Reservation serves many pods for a long time.
func TestWhoHasLeftIsForgotten(t *testing.T) {
	w := newWorld(t)
	uid := w.reservation("r", 4, many)
	if err := w.cycle(uid); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		pod := bindFor(onNode(fmt.Sprint("p", i), uid), uid)
		w.rs.PodSeen(pod)
		w.rs.PodGone(pod)
	}
	w.rs.PodSeen(bindFor(onNode("now", uid), uid))
	if had := w.rs.all[uid].had; len(had) != 1 {
		t.Errorf("%d pods are remembered, want the one that is there: %v", len(had), had)
	}
}

// TestOwnersNeedANamespace, if the scheduler's arguments require one.
func TestOwnersNeedANamespace(t *testing.T) {
	w := newWorld(t)
	w.rs.OwnersNeedNamespace = true
	uid := w.reservation("r", 4)
	if phase := w.phase(uid); phase != koordinator.ReservationPending || len(w.queued) > 0 {
		t.Errorf("a Reservation for owners of any namespace is %s, and in the queue is %v", phase, w.queued)
	}
	if said := w.objects[uid].Status.Conditions; len(said) == 0 || said[0].Message == "" {
		t.Errorf("its conditions are %+v: want the reason", said)
	}
	named := w.reservation("named", 4, func(o *koordinator.Reservation) {
		for i := range o.Spec.Owners {
			o.Spec.Owners[i].Object = &corev1.ObjectReference{Namespace: "default"}
		}
	})
	if err := w.cycle(named); err != nil || w.phase(named) != koordinator.ReservationAvailable {
		t.Errorf("a Reservation for owners of one namespace is %s, %v", w.phase(named), err)
	}
}

// TestAClockThatIsSetBackEndsNothingEarlyOrNever: a Reservation has one timer, however its expiry
// changes.
func TestAClockThatIsSetBackEndsNothingEarlyOrNever(t *testing.T) {
	w := newWorld(t)
	others := w.clock.Waiters()
	uid := w.reservation("r", 4, func(o *koordinator.Reservation) { o.Spec.TTL = &metav1.Duration{Duration: time.Hour} })
	if err := w.cycle(uid); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		o := w.objects[uid].DeepCopy()
		o.Spec.TTL = &metav1.Duration{Duration: time.Hour + time.Duration(i)*time.Second}
		w.objects[uid] = o
		w.rs.ObjectSeen(o)
	}
	if n := w.clock.Waiters() - others; n != 1 {
		t.Errorf("%d timers run for one Reservation", n)
	}
	w.rs.expire(uid) // as the timer does after the clock was set back
	if got := w.phase(uid); got != koordinator.ReservationAvailable {
		t.Errorf("the Reservation is %s before its time", got)
	}
	if n := w.clock.Waiters() - others; n != 1 {
		t.Errorf("%d timers run: want one, that ends it in time", n)
	}
	w.rs.ObjectGone(uid)
	if n := w.clock.Waiters() - others; n != 0 {
		t.Errorf("%d timers run for no Reservation", n)
	}
}

// TestANodeThatComesBackKeepsWhatIsHeld: kubelets delete and register their Node again.
func TestANodeThatComesBackKeepsWhatIsHeld(t *testing.T) {
	for _, back := range []bool{true, false} {
		w := newWorld(t)
		uid := w.reservation("r", 4)
		if err := w.cycle(uid); err != nil {
			t.Fatal(err)
		}
		w.nodeGone = true
		w.rs.NodeGone("n")
		w.rs.Stir()
		if got := w.phase(uid); got != koordinator.ReservationAvailable {
			t.Errorf("the Reservation is %s as soon as its node is gone", got)
		}
		if back {
			w.nodeGone = false
			w.rs.NodeBack("n")
		}
		w.rs.lost(uid)
		w.clock.SetTime(w.clock.Now().Add(nodeGrace))
		w.rs.lost(uid)
		want := koordinator.ReservationFailed
		if back {
			want = koordinator.ReservationAvailable
		}
		if got := w.phase(uid); got != want {
			t.Errorf("the node comes back: %t: the Reservation is %s, want %s", back, got, want)
		}
	}
}
