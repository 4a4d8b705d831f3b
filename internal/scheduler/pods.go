package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// uidOf returns the UID by which reports name the pod: a static pod goes by its mirror's.
func uidOf(pod *corev1.Pod) string { return string(pod.UID) }

// asksTheSame says whether two states of a pod ask for the same: it can be resized before it is
// bound. What cannot be read is the same as anything else that cannot.
func asksTheSame(then, now *corev1.Pod) bool {
	before, wrong := wire.ReadPod(then)
	after, err := wire.ReadPod(now)
	return (wrong == nil) == (err == nil) && before.Equal(&after)
}
