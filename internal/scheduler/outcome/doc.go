// Package outcome writes the results of scheduling attempts into pods: the condition PodScheduled,
// and the nominated node.
//
// kube-scheduler itself writes them before it tries the next pod. The author of a pod influences
// how long that takes: for a pod with some thousand containers the API server needs more than a
// second. This package writes outside of the scheduling loop, so that no pod waits for the write of
// another:
//
//   - A namespace has one write at a time, and namespaces take turns. There are few writes in
//     total, so that Bindings, which use the same client, do not wait behind them.
//   - After a slow write, a namespace pauses for the same time, so that the API server can serve
//     others.
//   - A pod has at most one pending write: that of the last attempt.
//   - A pod that only waits, for example for a report, gets condition and event after it has waited
//     for a while. In a burst most pods wait for a moment, and writing this for each would cost the
//     API server as much as their Bindings.
//   - The Writer remembers a pod's nominated node until the watch shows it. Otherwise another
//     attempt could evict pods for it again.
//   - A write is for the version of the pod that the watch has shown. The API server refuses it if
//     the pod was bound or has changed since. Only the replica that leads has attempts, and
//     therefore outcomes; a process that loses its Lease ends.
//
// kube-scheduler's feature gate SchedulerAsyncAPICalls also writes outside of the loop, but without
// a limit of concurrent writes, so that Bindings wait behind them (kubernetes#135900). It is off by
// default. If it is on, kube-scheduler writes.
package outcome
