package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of pods.
const (
	// GroupNameAnnotation names the pod's PodGroup.
	GroupNameAnnotation = "scheduling.k8s.io/group-name"
	// VolcanoGroupNameAnnotation also names the pod's PodGroup; Volcano reads both annotations.
	VolcanoGroupNameAnnotation = "scheduling.volcano.sh/group-name"
	// TaskSpecAnnotation names the task to which the pod belongs, for minTaskMember. If the
	// annotation is absent, the label of this name counts.
	TaskSpecAnnotation = "volcano.sh/task-spec"
	// PreemptableKey is an annotation or, if the annotation is absent, a label. "false" protects a
	// pod or PodGroup from eviction for other pods.
	PreemptableKey = "volcano.sh/preemptable"
)

// PodGroupPhase is the phase of a group.
type PodGroupPhase string

// The phases, as Volcano writes them.
const (
	// PodGroupPending: the group is accepted, but minResources are not free. Controllers that wait
	// for Inqueue create no pods yet.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupInqueue: controllers may create the group's pods.
	PodGroupInqueue PodGroupPhase = "Inqueue"
	// PodGroupRunning: at least minMember pods have a node.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupUnknown: fewer pods than minMember have a node, although enough had one before.
	PodGroupUnknown PodGroupPhase = "Unknown"
	// PodGroupCompleted: all pods have ended.
	PodGroupCompleted PodGroupPhase = "Completed"
)

// PodGroupConditionType is a kind of condition.
type PodGroupConditionType string

// The conditions, as Volcano writes them.
const (
	// PodGroupUnschedulableType: the cluster lacks capacity for the group, or a pod of the group
	// has a scheduling gate. Autoscalers act on this condition.
	PodGroupUnschedulableType PodGroupConditionType = "Unschedulable"
	// PodGroupScheduled: at least minMember pods have a node.
	PodGroupScheduled PodGroupConditionType = "Scheduled"
)

// PodGroup is a set of pods that start together or not at all.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podgroups,singular=podgroup,shortName=pg;podgroup-v1beta1
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="minMember",type=integer,JSONPath=`.spec.minMember`
// +kubebuilder:printcolumn:name="RUNNINGS",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
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
	// MinTaskMember is the number of pods of each task that start together, by task name.
	// +optional
	MinTaskMember map[string]int32 `json:"minTaskMember,omitempty"`
	// Queue is the queue of the group. Berth has no queues.
	// +optional
	// +kubebuilder:default:=default
	Queue string `json:"queue,omitempty"`
	// PriorityClassName is the priority class of those pods of the group that name no priority
	// class.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// MinResources are the resources that must be free before the group leaves Pending.
	// +optional
	MinResources *corev1.ResourceList `json:"minResources,omitempty"`
	// NetworkTopology requests nodes that are near each other in the network.
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`
	// SubGroupPolicy divides the group into subsets.
	// +optional
	SubGroupPolicy []SubGroupPolicySpec `json:"subGroupPolicy,omitempty"`
}

// NetworkTopologySpec requests nodes that are near each other in the network.
type NetworkTopologySpec struct {
	// Mode is hard or soft.
	// +optional
	Mode string `json:"mode,omitempty"`
	// +optional
	HighestTierAllowed *int32 `json:"highestTierAllowed,omitempty"`
	// +optional
	HighestTierName string `json:"highestTierName,omitempty"`
}

// SubGroupPolicySpec is a subset of a group whose pods start together.
type SubGroupPolicySpec struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// +optional
	MatchLabelKeys []string `json:"matchLabelKeys,omitempty"`
	// +optional
	SubGroupSize *int32 `json:"subGroupSize,omitempty"`
	// +optional
	MinSubGroups *int32 `json:"minSubGroups,omitempty"`
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`
}

// PodGroupStatus is the observed state of a group. The scheduler that serves the group writes it.
type PodGroupStatus struct {
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`
	// +optional
	Conditions []PodGroupCondition `json:"conditions,omitempty"`
	// Running is the number of pods that run.
	// +optional
	Running int32 `json:"running,omitempty"`
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
}

// PodGroupCondition is a condition, as Volcano writes it.
type PodGroupCondition struct {
	// +optional
	Type PodGroupConditionType `json:"type,omitempty"`
	// +optional
	Status corev1.ConditionStatus `json:"status,omitempty"`
	// TransitionID is unique for each change.
	// +optional
	TransitionID string `json:"transitionID,omitempty"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}
