package reservation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// users records the pods that were bound for Reservations, as their owners. A pod is removed when
// it or its Reservation is gone.
type users struct {
	// of has the pods, by the UID of their Reservation and their own UID. bookOf has the UID of
	// each pod's Reservation.
	of     map[types.UID]map[types.UID]*corev1.Pod
	bookOf map[types.UID]types.UID
}

// boundFor returns the UID of the Reservation that a pod was bound for, or "". boundFor uses the
// annotation from the Binding, because any user who may write the pod can change the pod's own
// annotation.
func boundFor(pod *corev1.Pod) types.UID {
	bound, _ := wire.ReadBoundFor(pod)
	return bound.Reservation
}

// put records a pod that is bound for a Reservation. put returns the UID of that Reservation, or ""
// if u already has the pod or the pod is not bound for a Reservation.
func (u *users) put(pod *corev1.Pod) types.UID {
	if of, known := u.bookOf[pod.UID]; known {
		u.of[of][pod.UID] = pod // keep only the newest version
		return ""
	}
	of := boundFor(pod)
	if of == "" {
		return ""
	}
	u.bookOf[pod.UID] = of
	if u.of[of] == nil {
		u.of[of] = map[types.UID]*corev1.Pod{}
	}
	u.of[of][pod.UID] = pod
	return of
}

// remove forgets a pod, and returns the UID of the Reservation that it used, or "".
func (u *users) remove(pod *corev1.Pod) types.UID {
	of, ok := u.bookOf[pod.UID]
	if !ok {
		return boundFor(pod) // the watch may have missed the Binding
	}
	delete(u.bookOf, pod.UID)
	if delete(u.of[of], pod.UID); len(u.of[of]) == 0 {
		delete(u.of, of)
	}
	return of
}

func (u *users) drop(of types.UID) {
	for uid := range u.of[of] {
		delete(u.bookOf, uid)
	}
	delete(u.of, of)
}

// owners returns the pods that use a part of the place, sorted by UID: the bound owners, and the
// pods in it.taking.
func (u *users) owners(it *item) []*corev1.Pod {
	return byUID(slices.AppendSeq(u.there(it), maps.Values(it.taking)))
}

func byUID(pods []*corev1.Pod) []*corev1.Pod {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return pods
}

// there returns the owners that were bound for the Reservation to the place's node, in no
// particular order.
func (u *users) there(it *item) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range u.of[it.object.UID] {
		if pod.Spec.NodeName == it.node && it.read.Owns(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// inVain records the Reservations with which a pod was tried without success since its last attempt
// without a Reservation.
type inVain struct {
	pod *corev1.Pod
	of  []types.UID
	// why names the last of these Reservations, its node, and the reason why the pod did not fit.
	why string
}

func (v *inVain) has(of types.UID) bool { return v != nil && slices.Contains(v.of, of) }
