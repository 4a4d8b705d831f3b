package wire

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the scheduler's events and the command line say of nodes. The texts are constant, so that equal ones add up.
const (
	// NoReport: the node has no NodeTopology.
	NoReport = "no NodeTopology: is berth-agent running there?"
	// NoSignOfLife: the agent has been silent for longer than a report may be relied on.
	NoSignOfLife = "its berth-agent gave no sign of life for too long"
	// WaitsForReport: the answer depends on something that the next report will tell.
	WaitsForReport = "waiting for its next report"
)

// Ended says whether the pod's containers have all ended for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Ending says whether the pod has ended or is being deleted: what it holds may be freed at any moment.
func Ending(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || Ended(pod) }

// Mortal says whether the pod can end by itself: its containers are not all started again whatever they end with, or a
// deadline ends it (spec.activeDeadlineSeconds). A container's own restart policy comes before the pod's.
func Mortal(pod *corev1.Pod) bool {
	ends := func(c corev1.Container) bool {
		return c.RestartPolicy != nil && *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Spec.ActiveDeadlineSeconds != nil ||
		slices.ContainsFunc(pod.Spec.Containers, ends) || slices.ContainsFunc(pod.Spec.InitContainers, ends)
}

// NotReadyError says that a report may not be relied on: its agent says so, and why.
type NotReadyError struct {
	// Reason is that of the condition Ready, one of the constants of v1alpha1.
	Reason string
	// Message names what is wrong and what would be right.
	Message string
}

func (e *NotReadyError) Error() string {
	return "its NodeTopology is not Ready: " + e.Reason + ": " + e.Message
}

// CheckReady returns a *NotReadyError unless the report may be relied on.
func (r *Report) CheckReady() error {
	if c := r.Ready(); c.Status != metav1.ConditionTrue {
		return &NotReadyError{c.Reason, c.Message}
	}
	return nil
}
