package v1alpha1

// The keys of annotations and labels on a Job's pods. Users select pods by the labels, and other
// components of Volcano read the labels and annotations.
const (
	// TaskSpecKey is the name of the task. It is also a label.
	TaskSpecKey = "volcano.sh/task-spec"
	// TaskIndexKey is the number of the pod in its task. It is also a label.
	TaskIndexKey = "volcano.sh/task-index"
	// JobNameKey is the name of the Job. It is also a label.
	JobNameKey = "volcano.sh/job-name"
	// JobNamespaceKey is the namespace of the Job. It is only a label.
	JobNamespaceKey = "volcano.sh/job-namespace"
	// QueueNameKey is the queue of the Job. It is also a label.
	QueueNameKey = "volcano.sh/queue-name"
	// JobVersionKey is status.version of the Job when the pod was created.
	JobVersionKey = "volcano.sh/job-version"
	// JobRetryCountKey is status.retryCount of the Job when the pod was created.
	JobRetryCountKey = "volcano.sh/job-retry-count"
	// TemplateKey is "JOB-TASK", the same for all pods of a task.
	TemplateKey = "volcano.sh/template-uid"
	// NumaPolicyKey is the task's topologyPolicy.
	NumaPolicyKey = "volcano.sh/numa-topology-policy"
)
