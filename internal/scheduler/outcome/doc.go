// Package outcome writes into pods what came of the attempts to place them: the condition
// PodScheduled, and the node that a pod is nominated to.
//
// kube-scheduler writes that itself before it tries the next pod. The pod's author decides how long
// that takes: for a pod of some thousand containers the API server needs more than a second. This
// package writes beside the scheduling loop, so that no pod waits for the write of another:
//
//   - A namespace has one write at a time, and namespaces take turns. There are few writes in all,
//     so that Bindings, which have the same client, do not queue up behind them.
//   - A namespace whose write took long rests for as long again: the API server serves others, too.
//   - A pod has at most one write due: the last attempt's.
//   - A pod that merely waits, as for a node's report, is told so when it has waited for a while,
//     with condition and event. In a burst most pods wait, and for a moment: to tell each of them
//     would cost the API server as much as their Bindings.
//   - The Writer knows where a pod is nominated to until the watch shows it: a pod that is tried
//     before would have other pods evicted for it once more.
//   - A write is for the version of the pod that the watch has shown. The API server refuses it
//     where the pod has been bound or has changed meanwhile. Only the replica that leads has
//     attempts, and so outcomes; a process that loses its Lease ends.
//
// kube-scheduler's feature gate SchedulerAsyncAPICalls also writes beside the loop, without a bound
// on how many writes there are at a time, so that Bindings wait behind them (kubernetes#135900). It
// is off by default. Where somebody switches it on, kube-scheduler writes.
package outcome
