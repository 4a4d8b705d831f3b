package reservation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// users are the pods that were bound as owners of Reservations. There is at most one entry for each
// existing pod. It is removed with the pod or the Reservation.
type users struct {
	// of has the pods by the Reservation's UID and their own. bookOf has the Reservation of each.
	of     map[types.UID]map[types.UID]*corev1.Pod
	bookOf map[types.UID]types.UID
	// synced: all pods that were there at the start have been seen.
	synced bool
}

// boundFor returns the Reservation that a pod was bound for, or "". The pod's own annotation may be
// written at any time by any user who may write the pod. Older releases bound pods without this
// record. For existing pods with a placement at the start, their own annotation is used.
func (u *users) boundFor(pod *corev1.Pod) types.UID {
	if bound, said := wire.ReadBoundFor(pod); said {
		return bound.Reservation
	}
	if u.synced || pod.Spec.NodeName == "" || !wire.HasPlacement(pod) {
		return ""
	}
	return wire.ReadAllocated(pod)
}

// put records a bound pod, and returns the Reservation to which it is new, or "".
func (u *users) put(pod *corev1.Pod) types.UID {
	if of, known := u.bookOf[pod.UID]; known {
		u.of[of][pod.UID] = pod // the watch has it as well: nothing older is kept
		return ""
	}
	of := u.boundFor(pod)
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

// remove forgets a pod, and returns the Reservation that it had something of; "" for none.
func (u *users) remove(pod *corev1.Pod) types.UID {
	of, ok := u.bookOf[pod.UID]
	if !ok {
		return u.boundFor(pod) // it may have been shown neither bound nor ended
	}
	delete(u.bookOf, pod.UID)
	if delete(u.of[of], pod.UID); len(u.of[of]) == 0 {
		delete(u.of, of)
	}
	return of
}

// drop forgets the pods of a Reservation.
func (u *users) drop(of types.UID) {
	for uid := range u.of[of] {
		delete(u.bookOf, uid)
	}
	delete(u.of, of)
}

// owners returns the pods that use a part of the place, by UID: those that are bound there and
// those that will be. A pod's own annotation counts only if the pod owns the place.
func (u *users) owners(it *item) []*corev1.Pod {
	return byUID(slices.AppendSeq(u.there(it), maps.Values(it.taking)))
}

func byUID(pods []*corev1.Pod) []*corev1.Pod {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return pods
}

// there returns the owners that are bound there, in no order.
func (u *users) there(it *item) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range u.of[it.object.UID] {
		if pod.Spec.NodeName == it.node && it.read.Owns(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// inVain are the Reservations that a pod was tried with and did not fit.
type inVain struct {
	pod *corev1.Pod
	of  []types.UID
	// why names the last of them and its node, and the reason of the refusal.
	why string
}

func (v *inVain) has(of types.UID) bool { return v != nil && slices.Contains(v.of, of) }
