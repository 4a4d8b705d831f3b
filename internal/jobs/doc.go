// Package jobs runs Jobs of batch.volcano.sh as Volcano's controller does: it creates their pods
// and PodGroups, applies lifecycle policies, and writes the Jobs' status.
//
// The reconciler is level-based: the pure function next computes the next actions from the Job, its
// status and its pods. The reconciler writes an intention (to restart, to stop) into the status
// before it deletes pods, so that it can continue after a crash:
//
//   - A pod's name follows from its task and index, so a repeated creation makes no second pod.
//   - status.version selects the pods that count. All pods of an earlier version are deleted.
//   - To restart a task, the reconciler writes the task's name into the status, and then deletes
//     the task's pods. It creates no pods until all of these are being deleted.
//   - status.taskStatusCount has the number of pods of each task. If a task has fewer pods, another
//     program or a user has deleted some.
//
// A write of the status succeeds only if the Job has not changed since it was read
// (resourceVersion), so a decision from an old copy has no effect.
package jobs
