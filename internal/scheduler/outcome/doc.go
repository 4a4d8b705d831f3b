// Package outcome writes the results of scheduling attempts into pods: the condition PodScheduled,
// and the nominated node.
//
// kube-scheduler itself writes them before it tries the next pod, and a write may be slow: for a
// pod with several thousand containers, the API server needs more than a second. This package
// writes outside of the scheduling loop, so that no pod waits for the write of another:
//
//   - A namespace has one write at a time, and namespaces take turns. Only a few writes of all
//     namespaces run at a time, so that Bindings, which use the same client, do not wait for them.
//   - After a slow write, a namespace pauses for as long as the write took, so that the API server
//     can serve other clients.
//   - A pod has at most one pending write, with the result of its last attempt.
//   - A pod that only waits, for example for a report, gets its condition and event after some
//     seconds. In a burst most pods wait for a moment, and a write for each pod would cost the API
//     server as much as the pod's Binding.
//   - The Writer remembers a pod's nominated node until the watch shows it. Otherwise another
//     attempt could evict pods for it again.
//   - A write is conditional on the version of the pod that the watch has shown. The API server
//     refuses the write if the pod was bound or changed since. No other replica writes outcomes,
//     because only the leader tries pods, and a process that loses its Lease ends.
//
// With the feature gate SchedulerAsyncAPICalls, which is off by default, kube-scheduler also writes
// outside of the loop. It does not limit concurrent writes, so Bindings wait for them
// (kubernetes#135900). If the gate is on, kube-scheduler writes instead of this package.
package outcome
