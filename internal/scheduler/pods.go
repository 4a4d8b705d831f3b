package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// uidOf returns the UID by which reports name the pod: a static pod goes by its mirror's.
func uidOf(pod *corev1.Pod) string { return string(pod.UID) }

// priorityOf returns the pod's priority; 0 where admission has set none.
func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// asksTheSame says whether two states of a pod ask for the same: it can be resized before it is
// bound. What cannot be read is the same as anything else that cannot.
func asksTheSame(then, now *corev1.Pod) bool {
	before, wrong := wire.ReadPod(then)
	after, err := wire.ReadPod(now)
	return (wrong == nil) == (err == nil) && before.Equal(&after)
}

// mightPin is placement.Request.Pinnable without translating the pod: cheap, and never false where
// that is true.
func mightPin(pod *corev1.Pod) bool {
	if pod.Status.QOSClass == corev1.PodQOSGuaranteed || pod.Status.QOSClass == "" || pod.Spec.Resources != nil {
		return true
	}
	return asksDevices(pod.Spec.InitContainers) || asksDevices(pod.Spec.Containers)
}

func asksDevices(containers []corev1.Container) bool {
	for i := range containers {
		for name := range containers[i].Resources.Limits {
			if wire.IsExtended(name) {
				return true
			}
		}
	}
	return false
}
