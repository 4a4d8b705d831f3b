package v1alpha1

// Annotations of the pods of a Job; those marked so are labels too. Users select by them, and
// Volcano's other components read them.
const (
	// TaskSpecKey is the name of the task. A label too.
	TaskSpecKey = "volcano.sh/task-spec"
	// TaskIndexKey is the number of the pod in its task. A label too.
	TaskIndexKey = "volcano.sh/task-index"
	// JobNameKey is the name of the Job. A label too.
	JobNameKey = "volcano.sh/job-name"
	// JobNamespaceKey is the namespace of the Job. A label only.
	JobNamespaceKey = "volcano.sh/job-namespace"
	// QueueNameKey is the queue of the Job. A label too.
	QueueNameKey = "volcano.sh/queue-name"
	// JobVersionKey is status.version of the Job when the pod was made.
	JobVersionKey = "volcano.sh/job-version"
	// JobRetryCountKey is status.retryCount of the Job when the pod was made.
	JobRetryCountKey = "volcano.sh/job-retry-count"
	// TemplateKey is the same for the pods of one task: "JOB-TASK".
	TemplateKey = "volcano.sh/template-uid"
	// NumaPolicyKey is the task's topologyPolicy.
	NumaPolicyKey = "volcano.sh/numa-topology-policy"
)
