package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobPhase is how far a Job is.
type JobPhase string

// The phases. The ones that end in "ing", except for Running and Pending, wait for pods to be gone.
const (
	// Pending: the Job waits for its pods to be placed.
	Pending JobPhase = "Pending"
	// Aborting becomes Aborted.
	Aborting JobPhase = "Aborting"
	// Aborted: stopped by a policy or a user, and could go on.
	Aborted JobPhase = "Aborted"
	// Running: at least minAvailable pods run or have succeeded.
	Running JobPhase = "Running"
	// Restarting becomes Pending.
	Restarting JobPhase = "Restarting"
	// Completing becomes Completed.
	Completing JobPhase = "Completing"
	// Completed: what had to succeed has succeeded.
	Completed JobPhase = "Completed"
	// Terminating becomes Terminated.
	Terminating JobPhase = "Terminating"
	// Terminated: stopped for good.
	Terminated JobPhase = "Terminated"
	// Failed: restarted too often, or ended without enough success.
	Failed JobPhase = "Failed"
)

// JobState is the phase, and why.
type JobState struct {
	// +optional
	Phase JobPhase `json:"phase,omitempty"`
	// Reason is one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	// +optional
	Message string `json:"message,omitempty"`
	// LastTransitionTime is when the phase changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// TaskState counts the pods of a task.
type TaskState struct {
	// Phase counts them by phase.
	// +optional
	Phase map[corev1.PodPhase]int32 `json:"phase,omitempty"`
}

// JobStatus says how far a Job is.
type JobStatus struct {
	// +optional
	State JobState `json:"state,omitempty"`
	// MinAvailable is what is needed to run.
	// +optional
	MinAvailable int32 `json:"minAvailable,omitempty"`
	// TaskStatusCount counts the pods of each task.
	// +optional
	TaskStatusCount map[string]TaskState `json:"taskStatusCount,omitempty"`
	// Pending counts pods that wait to be placed or started.
	// +optional
	Pending int32 `json:"pending,omitempty"`
	// Running counts pods that run.
	// +optional
	Running int32 `json:"running,omitempty"`
	// Succeeded counts pods that have succeeded.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// Failed counts pods that have failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// Terminating counts pods that are being deleted.
	// +optional
	Terminating int32 `json:"terminating,omitempty"`
	// Unknown counts pods that nobody knows.
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
	// Version grows whenever all pods are replaced; pods of an earlier one count no more.
	// +optional
	Version int32 `json:"version,omitempty"`
	// RetryCount is how often the Job was restarted.
	// +optional
	RetryCount int32 `json:"retryCount,omitempty"`
	// RunningDuration is the time from Running to the end.
	// +optional
	RunningDuration *metav1.Duration `json:"runningDuration,omitempty"`
	// ControlledResources are objects that job plugins made: "plugin-env", "plugin-svc". Under keys
	// of berth.dev berth-controller remembers there which part of a restart is under way.
	// +optional
	ControlledResources map[string]string `json:"controlledResources,omitempty"`
	// Conditions are the phases that the Job went through.
	// +optional
	Conditions []JobCondition `json:"conditions,omitempty"`
}

// JobCondition is a phase that the Job was in.
type JobCondition struct {
	// Status is the phase.
	Status JobPhase `json:"status"`
	// LastTransitionTime is when the Job came into it.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
