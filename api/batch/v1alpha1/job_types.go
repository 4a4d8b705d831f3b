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
}

// JobList is a list of Job objects.
//
// +kubebuilder:object:root=true
type JobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Job `json:"items"`
}

// JobSpec says what to run.
type JobSpec struct {
	// SchedulerName is that of the pods whose template names none.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`
	// MinAvailable is how many pods must be placed together for the Job to run; 0 stands for all.
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
	// Policies say what to do when something happens to a pod whose task has no policy for it.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Policies []LifecyclePolicy `json:"policies,omitempty"`
	// Plugins are job plugins by name, with their arguments. Berth serves env, svc, ssh,
	// mpi, pytorch, tensorflow and ray.
	// +optional
	Plugins map[string][]string `json:"plugins,omitempty"`
	// RunningEstimate is what the user expects; nothing is decided by it.
	// +optional
	RunningEstimate *metav1.Duration `json:"runningEstimate,omitempty"`
	// Queue is the queue of the Job. Berth has one, "default".
	// +optional
	Queue string `json:"queue,omitempty"`
	// MaxRetry is the retry at which the Job fails: it is restarted once less than this says.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default:=3
	MaxRetry int32 `json:"maxRetry,omitempty"`
	// TTLSecondsAfterFinished is how many seconds after its end a finished Job is deleted; never
	// where it is absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// PriorityClassName is that of the pods whose template names none.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// MinSuccess is how many pods must succeed for the Job to be complete.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinSuccess *int32 `json:"minSuccess,omitempty"`
	// NetworkTopology asks for nodes that are near each other. Berth does not serve it.
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`
}

// TaskSpec is pods of one kind.
type TaskSpec struct {
	// Name is the task's; "default0", "default1" and so on where it is absent, by position.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// Replicas is how many pods the task has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas int32 `json:"replicas,omitempty"`
	// MinAvailable is how many of them the Job needs to run; all where it is absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// Template is what the pods are made from.
	// +optional
	Template corev1.PodTemplateSpec `json:"template,omitempty"`
	// Policies say what to do when something happens to a pod of the task.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Policies []LifecyclePolicy `json:"policies,omitempty"`
	// TopologyPolicy is the policy of the Topology Manager that the pods ask for.
	// +optional
	TopologyPolicy NumaPolicy `json:"topologyPolicy,omitempty"`
	// MaxRetry is how often the containers of the task may be restarted, all together, before the
	// event TaskFailed; 3 where it is absent, -1 for no limit.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	MaxRetry int32 `json:"maxRetry,omitempty"`
	// DependsOn lets the task start after others.
	// +optional
	DependsOn *DependsOn `json:"dependsOn,omitempty"`
	// PartitionPolicy divides the task into groups. Berth does not serve it.
	// +optional
	PartitionPolicy *PartitionPolicySpec `json:"partitionPolicy,omitempty"`
}

// NumaPolicy is a policy of the kubelet's Topology Manager.
//
// +kubebuilder:validation:Enum=none;best-effort;restricted;single-numa-node
type NumaPolicy string

// LifecyclePolicy is an action, and upon what it is taken.
type LifecyclePolicy struct {
	// Action is what is done.
	// +optional
	// +kubebuilder:validation:Enum=AbortJob;RestartJob;RestartTask;RestartPod;RestartPartition;TerminateJob;CompleteJob;ResumeJob
	Action Action `json:"action,omitempty"`
	// Event is upon what; one of Event, Events and ExitCode is given.
	// +optional
	Event Event `json:"event,omitempty"`
	// Events are several.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	Events []Event `json:"events,omitempty"`
	// ExitCode is that of a container, and not 0.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Timeout is how long the cause must last before anything is done.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Action is what a lifecycle policy does.
type Action string

// The actions.
const (
	// AbortJob stops the Job; it could be resumed.
	AbortJob Action = "AbortJob"
	// RestartJob starts all tasks again.
	RestartJob Action = "RestartJob"
	// RestartTask starts the pods of the task again.
	RestartTask Action = "RestartTask"
	// RestartPod starts the pod again.
	RestartPod Action = "RestartPod"
	// RestartPartition starts the pods of a partition again. Berth does not serve it.
	RestartPartition Action = "RestartPartition"
	// TerminateJob stops the Job for good.
	TerminateJob Action = "TerminateJob"
	// CompleteJob stops what still runs; the Job is complete.
	CompleteJob Action = "CompleteJob"
	// ResumeJob goes on with an aborted Job. Berth does not serve it.
	ResumeJob Action = "ResumeJob"
)

// Event is something that happens to a pod or a task.
//
// +kubebuilder:validation:Enum="*";PodFailed;PodEvicted;PodPending;PodRunning;Unknown;TaskCompleted;TaskFailed;OutOfSync;CommandIssued;JobUpdated
type Event string

// The events that a policy may name.
const (
	// AnyEvent stands for all of them.
	AnyEvent Event = "*"
	// PodFailed: a pod has failed.
	PodFailed Event = "PodFailed"
	// PodEvicted: a pod was deleted, and not by the Job's controller.
	PodEvicted Event = "PodEvicted"
	// PodPending: a pod waits, for longer than the policy's timeout.
	PodPending Event = "PodPending"
	// PodRunning: a pod runs. Berth does not serve it.
	PodRunning Event = "PodRunning"
	// JobUnknown: a Job that ran has fewer pods than it needs, and one finds no node.
	JobUnknown Event = "Unknown"
	// TaskCompleted: all pods of a task have succeeded.
	TaskCompleted Event = "TaskCompleted"
	// TaskFailed: containers of a task were restarted as often as its maxRetry says, or its pods
	// have ended and too few have succeeded.
	TaskFailed Event = "TaskFailed"
)

// DependsOn are tasks that have to be there first.
type DependsOn struct {
	// Name lists them.
	// +optional
	Name []string `json:"name,omitempty"`
	// Iteration is "any" or "all".
	// +optional
	Iteration string `json:"iteration,omitempty"`
}

// NetworkTopologySpec asks for nodes that are near each other.
type NetworkTopologySpec struct {
	// Mode says whether it must be.
	// +optional
	// +kubebuilder:default=hard
	// +kubebuilder:validation:Enum=hard;soft
	Mode string `json:"mode,omitempty"`
	// HighestTierAllowed is how far apart they may be.
	// +optional
	HighestTierAllowed *int `json:"highestTierAllowed,omitempty"`
	// HighestTierName is the same by name.
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

// VolumeSpec is a volume of all containers.
type VolumeSpec struct {
	// MountPath is where it is mounted.
	MountPath string `json:"mountPath"`
	// VolumeClaimName is the name of a claim.
	// +optional
	VolumeClaimName string `json:"volumeClaimName,omitempty"`
	// VolumeClaim is a claim that is made for it.
	// +optional
	VolumeClaim *corev1.PersistentVolumeClaimSpec `json:"volumeClaim,omitempty"`
}
