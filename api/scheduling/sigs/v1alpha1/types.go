package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroupLabel is a label of a pod. It names the pod's PodGroup.
const PodGroupLabel = "scheduling.x-k8s.io/pod-group"

// OldPodGroupLabel is a label of a pod. It names the pod's PodGroup of OldGroupVersion.
const OldPodGroupLabel = "pod-group.scheduling.sigs.k8s.io"

// PodGroupPhase is the phase of a group.
type PodGroupPhase string

// The phases, as scheduler-plugins writes them.
const (
	PodGroupPending    PodGroupPhase = "Pending"
	PodGroupScheduling PodGroupPhase = "Scheduling"
	PodGroupRunning    PodGroupPhase = "Running"
	PodGroupUnknown    PodGroupPhase = "Unknown"
	PodGroupFinished   PodGroupPhase = "Finished"
	PodGroupFailed     PodGroupPhase = "Failed"
)

// PodGroup is a set of pods that start together or not at all.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podgroups,singular=podgroup,shortName=pg;pgs
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="MinMember",type=integer,JSONPath=`.spec.minMember`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec PodGroupSpec `json:"spec,omitempty"`
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`

	// Malformed is the error if the object does not fit the types. If Malformed is not "", only the
	// metadata and the status are set.
	Malformed string `json:"-"`
}

// PodGroupList is a list of PodGroup objects.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodGroup `json:"items"`
}

// PodGroupSpec is the desired state of a group.
type PodGroupSpec struct {
	// MinMember is the number of pods that start together.
	// +optional
	MinMember int32 `json:"minMember,omitempty"`
	// MinResources are the resources that must be free before the scheduler tries to place the
	// group.
	// +optional
	MinResources corev1.ResourceList `json:"minResources,omitempty"`
	// ScheduleTimeoutSeconds is the time that members wait for each other after the scheduler has
	// planned the group.
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// PodGroupStatus is the observed state of a group. The scheduler that serves the group writes it.
type PodGroupStatus struct {
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`
	// OccupiedBy names the workload to which the group's pods belong.
	// +optional
	OccupiedBy string `json:"occupiedBy,omitempty"`
	// Running is the number of pods that run.
	// +optional
	Running int32 `json:"running,omitempty"`
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// ScheduleStartTime is the time when the scheduler first tried to place the group.
	// +optional
	ScheduleStartTime metav1.Time `json:"scheduleStartTime,omitempty"`
}
