package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobPhase is the phase of a Job.
type JobPhase string

// The phases. In Aborting, Restarting, Completing and Terminating, the Job waits until its pods are
// gone.
const (
	// Pending: the Job waits for its pods to be placed.
	Pending JobPhase = "Pending"
	// Aborting is followed by Aborted.
	Aborting JobPhase = "Aborting"
	// Aborted: a policy or a user stopped the Job. Volcano can resume it.
	Aborted JobPhase = "Aborted"
	// Running: at least minAvailable pods run or have ended.
	Running JobPhase = "Running"
	// Restarting is followed by Pending.
	Restarting JobPhase = "Restarting"
	// Completing is followed by Completed.
	Completing JobPhase = "Completing"
	// Completed: enough pods have succeeded, or a policy has completed the Job.
	Completed JobPhase = "Completed"
	// Terminating is followed by Terminated.
	Terminating JobPhase = "Terminating"
	// Terminated: the Job was stopped and cannot be resumed.
	Terminated JobPhase = "Terminated"
	// Failed: the Job was restarted too often, too few pods succeeded, or Berth does not support
	// the Job.
	Failed JobPhase = "Failed"
)

// JobState is the phase and its reason.
type JobState struct {
	// +optional
	Phase JobPhase `json:"phase,omitempty"`
	// Reason is one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the reason to users.
	// +optional
	Message string `json:"message,omitempty"`
	// LastTransitionTime is the time of the last change of the phase.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// TaskState counts the pods of one task.
type TaskState struct {
	// Phase is the number of pods in each pod phase.
	// +optional
	Phase map[corev1.PodPhase]int32 `json:"phase,omitempty"`
}

// JobStatus is the observed state of a Job.
type JobStatus struct {
	// +optional
	State JobState `json:"state,omitempty"`
	// MinAvailable is the number of pods that the Job needs to run.
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
	// Unknown counts pods whose phase is Unknown.
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
	// Version grows whenever all pods are replaced. Pods of an earlier version are not counted.
	// +optional
	Version int32 `json:"version,omitempty"`
	// RetryCount is the number of restarts of the Job, its tasks and its pods.
	// +optional
	RetryCount int32 `json:"retryCount,omitempty"`
	// RunningDuration is the time from Running to the end.
	// +optional
	RunningDuration *metav1.Duration `json:"runningDuration,omitempty"`
	// ControlledResources lists the job plugins that created objects, under keys such as
	// "plugin-env" and "plugin-svc". berth-controller also stores the progress of a restart here,
	// under keys of berth.dev.
	// +optional
	ControlledResources map[string]string `json:"controlledResources,omitempty"`
	// Conditions are the phases that the Job has been in.
	// +optional
	Conditions []JobCondition `json:"conditions,omitempty"`
}

// JobCondition is a phase that the Job was in.
type JobCondition struct {
	// Status is the phase.
	Status JobPhase `json:"status"`
	// LastTransitionTime is the time when the Job entered the phase.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
