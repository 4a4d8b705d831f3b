// Package jobs runs Jobs of batch.volcano.sh as Volcano's controller does: it creates their pods
// and PodGroups, applies lifecycle policies, and writes the Jobs' status.
//
// The reconciler is level-based. The next action follows from the Job, its status and its pods; the
// pure function next computes it. An intention (to restart, to stop) is written into the status
// before anything is deleted, so that the controller can continue after a crash:
//
//   - A pod's name follows from task and index, so that a pod which is created twice exists once.
//   - status.version selects the pods that count. All pods of an earlier version are deleted.
//   - A task is restarted by deleting its pods, the pod that caused it last. While that pod exists,
//     no pods of the task are created.
//   - status.taskStatusCount has how many pods a task had. If a pod is missing without a record in
//     the status, another program or a person deleted it.
//
// A status is written only over the version of the Job that was read (resourceVersion), so a
// decision from an old copy has no effect.
package jobs
