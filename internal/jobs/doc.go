// Package jobs runs Jobs of batch.volcano.sh as Volcano's controller does: it creates their pods
// and PodGroups, applies lifecycle policies, and writes the Jobs' status.
//
// The reconciler is level-based: the pure function next computes the next actions from the Job, its
// status and its pods. The reconciler writes an intention (to restart, to stop) into the status
// before it deletes pods, so that it can continue after a crash:
//
//   - A pod's name follows from its task and index, so a pod that is created twice exists only
//     once.
//   - status.version selects the pods that count. All pods of an earlier version are deleted.
//   - To restart a task, the reconciler deletes its pods. It deletes the pod that caused the
//     restart last. While that pod exists, it creates no pods of the task.
//   - status.taskStatusCount has the number of pods that a task had. If a pod is missing without a
//     record in the status, another program or a user deleted it.
//
// A write of the status succeeds only if the Job has not changed since it was read
// (resourceVersion), so a decision from an old copy has no effect.
package jobs
