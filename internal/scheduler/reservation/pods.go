package reservation

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/wire"
)

// saysOwner reports whether a pod may use a Reservation: it has the annotation berth.dev/bound-for.
// The Binding of a gang's member has it too.
func saysOwner(pod *corev1.Pod) bool { return pod.Annotations[wire.BoundForAnnotation] != "" }

// PodSeen records a pod as the watch shows it.
func (rs *Reservations) PodSeen(pod *corev1.Pod) {
	if !rs.any.Load() && !saysOwner(pod) {
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
	if of := rs.users.put(pod); of != "" {
		rs.usersChanged(of, pod)
	}
}

// PodGone records that a pod was deleted or has ended.
func (rs *Reservations) PodGone(pod *corev1.Pod) {
	if !rs.any.Load() && !saysOwner(pod) {
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
	if of := rs.users.remove(pod); of != "" {
		rs.usersChanged(of, pod)
	}
}

// sweepEvery is the interval at which Sweep checks whether the stored pods still exist.
const sweepEvery = time.Minute

// Sweep removes stored pods that are gone, every sweepEvery until ctx ends. The function uid
// returns the UID of the pod with the given name, or "".
func (rs *Reservations) Sweep(ctx context.Context, uid func(namespace, name string) types.UID) {
	for later.Wait(ctx, rs.Clock, sweepEvery) {
		rs.sweep(uid)
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
	for _, pods := range rs.users.of {
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
