// Package outcome writes into pods what came of the attempts to place them: the condition
// PodScheduled, and the node that a pod is nominated to.
//
// kube-scheduler writes that itself before it tries the next pod. How long this takes is up to the
// author of the pod: the API server needs more than a second for some thousand containers. Here it
// is written beside the scheduling loop, so that nobody waits for another's pod:
//
//   - A namespace has one write at a time, and namespaces take turns. There are few writes in all,
//     so that Bindings, which have the same client, do not queue up behind them.
//   - A namespace whose write took long rests for as long again: the API server serves others, too.
//   - A pod has one write that is due, which tells the last attempt.
//   - A write is for the version of the pod that the watch has shown. The API server refuses it
//     where the pod has been bound or has changed meanwhile.
//
// kube-scheduler's feature gate SchedulerAsyncAPICalls also writes beside the loop, without a bound
// on how many writes there are at a time, so that Bindings wait behind them (kubernetes#135900). It
// is off by default. Where somebody switches it on, kube-scheduler writes.
package outcome
