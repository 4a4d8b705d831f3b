// Package jobs runs Jobs of batch.volcano.sh as Volcano's controller does: it makes their pods and
// their PodGroup, counts, applies lifecycle policies, and says in the status how far a Job is.
//
// The reconciler is level-based. What has to be done follows from the Job, its status and its pods:
// next is that function, and it is pure. An intention (to restart, to stop) is written into the
// status before anything is deleted, so that the controller that goes on after a crash goes on with
// it:
//
//   - A pod has a name of its own by task and index: one that is made twice exists once.
//   - status.version says which pods count. All pods of an earlier version are deleted.
//   - A task is restarted by deleting its pods, the one that was the cause last. While the cause is
//     there, the task is not filled up.
//   - status.taskStatusCount says how many pods a task had. A pod that is missing without a word in
//     the status was taken away by somebody else.
//
// A status is written over the Job that was read, or not at all (resourceVersion). So a decision
// from an old copy of the Job comes to nothing.
package jobs
