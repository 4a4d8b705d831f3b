package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Job is a set of tasks whose pods start together.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=jobs,singular=job,shortName=vcjob;vj
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.state.phase`
// +kubebuilder:printcolumn:name="minAvailable",type=integer,JSONPath=`.status.minAvailable`
// +kubebuilder:printcolumn:name="RUNNINGS",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.state.reason`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,priority=1,JSONPath=`.status.state.message`
// +kubebuilder:printcolumn:name="QUEUE",type=string,priority=1,JSONPath=`.spec.queue`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name has at most 63 characters: labels and host names are made of it"
type Job struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec JobSpec `json:"spec,omitempty"`
	// +optional
	Status JobStatus `json:"status,omitempty"`

	// Malformed is the error if the object does not fit the types. If Malformed is not "", only the
	// metadata, the status and spec.schedulerName are set.
	Malformed string `json:"-"`
}

// JobList is a list of Job objects.
//
// +kubebuilder:object:root=true
type JobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Job `json:"items"`
}

// JobSpec is the desired state of a Job.
type JobSpec struct {
	// SchedulerName is the scheduler of pods whose template names no scheduler.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`
	// MinAvailable is the number of pods that must be placed together for the Job to run; 0 means
	// the sum of the tasks' values.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinAvailable int32 `json:"minAvailable,omitempty"`
	// Volumes are mounted into every container.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Volumes []VolumeSpec `json:"volumes,omitempty"`
	// Tasks are the kinds of pods.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Tasks []TaskSpec `json:"tasks,omitempty"`
	// Policies apply to events of pods whose task has no policy for the event.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Policies []LifecyclePolicy `json:"policies,omitempty"`
	// Plugins are job plugins by name, with their arguments. Berth supports env, svc, ssh, mpi,
	// pytorch, tensorflow and ray.
	// +optional
	Plugins map[string][]string `json:"plugins,omitempty"`
	// RunningEstimate is the time that the user expects the Job to run. Berth does not use it.
	// +optional
	RunningEstimate *metav1.Duration `json:"runningEstimate,omitempty"`
	// Queue is the queue of the Job. Berth has only the queue "default".
	// +optional
	Queue string `json:"queue,omitempty"`
	// MaxRetry limits restarts: instead of the MaxRetry-th restart, the Job fails. Restarts of
	// tasks and pods count too. 0 means 3, so the third restart becomes a failure.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default:=3
	MaxRetry int32 `json:"maxRetry,omitempty"`
	// TTLSecondsAfterFinished is the number of seconds after the end of the Job at which the Job is
	// deleted. If absent, the Job is never deleted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// PriorityClassName is the priority class of pods whose template names no priority class.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// MinSuccess is the number of pods that must succeed to complete the Job.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinSuccess *int32 `json:"minSuccess,omitempty"`
	// NetworkTopology requests nodes that are near each other in the network. Berth does not
	// support it.
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`
}

// TaskSpec is a set of pods with the same template.
type TaskSpec struct {
	// Name is the task's name. If absent, it is "default0", "default1" and so on, by the task's
	// position.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// Replicas is the number of pods of the task.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas int32 `json:"replicas,omitempty"`
	// MinAvailable is the number of the task's pods that the Job needs to run. If absent, it needs
	// as many as the task had replicas when the Job was created.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// Template is the template of the pods.
	// +optional
	Template corev1.PodTemplateSpec `json:"template,omitempty"`
	// Policies apply to events of the task's pods.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Policies []LifecyclePolicy `json:"policies,omitempty"`
	// TopologyPolicy is the Topology Manager policy that the pods request.
	// +optional
	TopologyPolicy NumaPolicy `json:"topologyPolicy,omitempty"`
	// MaxRetry is the number of restarts that the task's containers may have in total before the
	// event TaskFailed. If absent, it is 3; -1 means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	MaxRetry int32 `json:"maxRetry,omitempty"`
	// DependsOn delays the task until other tasks have started.
	// +optional
	DependsOn *DependsOn `json:"dependsOn,omitempty"`
	// PartitionPolicy divides the task into groups. Berth does not support it.
	// +optional
	PartitionPolicy *PartitionPolicySpec `json:"partitionPolicy,omitempty"`
}

// NumaPolicy is a policy of the kubelet's Topology Manager.
//
// +kubebuilder:validation:Enum=none;best-effort;restricted;single-numa-node
type NumaPolicy string

// LifecyclePolicy is an action and the event or exit code that triggers it.
type LifecyclePolicy struct {
	// Action is the action to take.
	// +optional
	// +kubebuilder:validation:Enum=AbortJob;RestartJob;RestartTask;RestartPod;RestartPartition;TerminateJob;CompleteJob;ResumeJob
	Action Action `json:"action,omitempty"`
	// Event triggers the action. Exactly one of Event, Events and ExitCode is set.
	// +optional
	Event Event `json:"event,omitempty"`
	// Events is a list of events, each of which triggers the action.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Events []Event `json:"events,omitempty"`
	// ExitCode is the exit code of a container that triggers the action. It must not be 0.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Timeout is the time for which the cause must last before the action is taken.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Action is the action of a lifecycle policy.
type Action string

// The actions.
const (
	// AbortJob stops the Job. Volcano can resume it.
	AbortJob Action = "AbortJob"
	// RestartJob restarts all tasks.
	RestartJob Action = "RestartJob"
	// RestartTask restarts the pods of the task.
	RestartTask Action = "RestartTask"
	// RestartPod restarts the pod.
	RestartPod Action = "RestartPod"
	// RestartPartition restarts the pods of a partition. Berth does not support it.
	RestartPartition Action = "RestartPartition"
	// TerminateJob stops the Job. It cannot be resumed.
	TerminateJob Action = "TerminateJob"
	// CompleteJob stops the pods that still run and completes the Job.
	CompleteJob Action = "CompleteJob"
	// ResumeJob resumes an aborted Job. Berth does not support it.
	ResumeJob Action = "ResumeJob"
)

// Event is something that happens to a pod or a task.
//
// +kubebuilder:validation:Enum="*";PodFailed;PodEvicted;PodPending;PodRunning;Unknown;TaskCompleted;TaskFailed;OutOfSync;CommandIssued;JobUpdated
type Event string

// The events that a policy may name.
const (
	// AnyEvent matches every event except PodPending.
	AnyEvent Event = "*"
	// PodFailed: a pod has failed.
	PodFailed Event = "PodFailed"
	// PodEvicted: a pod was deleted by another actor than the Job's controller.
	PodEvicted Event = "PodEvicted"
	// PodPending: a pod has been pending for longer than the policy's timeout.
	PodPending Event = "PodPending"
	// PodRunning: a pod runs. Berth does not support it.
	PodRunning Event = "PodRunning"
	// JobUnknown: a Job that was running has too few running pods now, and one of its pods is
	// unschedulable.
	JobUnknown Event = "Unknown"
	// TaskCompleted: all pods of a task have succeeded.
	TaskCompleted Event = "TaskCompleted"
	// TaskFailed: a task's containers were restarted maxRetry times, or its pods have ended and too
	// few have succeeded.
	TaskFailed Event = "TaskFailed"
)

// DependsOn names the tasks that must start first.
type DependsOn struct {
	// Name lists the tasks.
	// +optional
	Name []string `json:"name,omitempty"`
	// Iteration is "any" or "all".
	// +optional
	Iteration string `json:"iteration,omitempty"`
}

// NetworkTopologySpec requests nodes that are near each other in the network.
type NetworkTopologySpec struct {
	// Mode is "hard" for a requirement and "soft" for a preference.
	// +optional
	// +kubebuilder:default=hard
	// +kubebuilder:validation:Enum=hard;soft
	Mode string `json:"mode,omitempty"`
	// HighestTierAllowed is the highest network tier that the nodes may span.
	// +optional
	HighestTierAllowed *int `json:"highestTierAllowed,omitempty"`
	// HighestTierName is the name of the highest network tier that the nodes may span.
	// +optional
	HighestTierName string `json:"highestTierName,omitempty"`
}

// PartitionPolicySpec divides the pods of a task into groups.
type PartitionPolicySpec struct {
	// +kubebuilder:validation:Minimum=1
	TotalPartitions int32 `json:"totalPartitions"`
	// +kubebuilder:validation:Minimum=1
	PartitionSize int32 `json:"partitionSize"`
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`
	// +optional
	// +kubebuilder:default:=0
	// +kubebuilder:validation:Minimum=0
	MinPartitions int32 `json:"minPartitions,omitempty"`
}

// VolumeSpec is a volume that all containers mount.
type VolumeSpec struct {
	// MountPath is the path of the volume in the containers.
	MountPath string `json:"mountPath"`
	// VolumeClaimName is the name of an existing claim.
	// +optional
	VolumeClaimName string `json:"volumeClaimName,omitempty"`
	// VolumeClaim is the spec of a claim that the controller creates.
	// +optional
	VolumeClaim *corev1.PersistentVolumeClaimSpec `json:"volumeClaim,omitempty"`
}
