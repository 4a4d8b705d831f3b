// Package scheduler is Berth's plugin for kube-scheduler: extension points, arguments and metrics.
// It has no placement logic. Package placement predicts kubelets, package ledger knows the possible
// states of a node, package nodes remembers answers, package wake retries pods, and package
// handover changes leaders.
//
// The way of a pod: PreFilter translates the pod once, and chooses one of five ways (type way).
// Filter asks every node's ledger for a verdict. Reserve decides and reserves. Bind decides again
// when it is the pod's turn, and writes Binding and decision in one request, one request at a time
// per node. The node's next report acknowledges it.
//
// If a node's report is missing, stale, contradictory or invalid, the node is refused with a reason
// for pods that could be pinned. Pods that cannot be pinned anywhere pass unchanged. On nodes with
// authority berth there is a decision for every pod, and its Binding requires the agent's plugin of
// the container runtime. Nothing waits there, because a decision binds.
//
// # What each extension point answers, and what wakes the pod then
//
// A failed attempt ends in the queue of unschedulable pods. Its result is written into the pod
// outside of the scheduling loop (package outcome). kube-scheduler preempts only if some node
// answered Unschedulable and PostFilter allows it.
//
//	PreFilter   Skip                            nothing is pinned for the pod: it passes untouched
//	            UnschedulableAndUnresolvable    it cannot be read: an update of what it asks for
//	            UnschedulableAndUnresolvable    reports or the takeover are outstanding: wake.WakeAll
//	Filter      Success                         the node takes it
//	            Pending                         the node waits for a report: that report; wake.NodeChanged
//	            Pending                         it would fit, but not with certain CPUs: Args.Patience
//	            Unschedulable                   its kubelet would refuse it, evictions may help:
//	                                            wake.NodeChanged; deletion of a pod there (a queueing hint)
//	            UnschedulableAndUnresolvable    refused even when empty, or the node has a weaker policy:
//	                                            wake.NodeReturned, when the node has changed
//	            UnschedulableAndUnresolvable    no usable report, or no sign of life: wake.NodeReturned
//	PostFilter  UnschedulableAndUnresolvable    some node waits: nobody is evicted before its report. After
//	                                            wake.ReportLimit the pod is tried again, and may preempt
//	            Unschedulable                   the reasons per NUMA node; preemption is asked next
//	PreScore    Skip                            the pod passes untouched
//	Score       0 to 100                        ranks nodes that take the pod
//	Reserve     Success                         the ledger holds its place
//	            Unschedulable, Pending          the node has changed its mind: wake.RoundPause later; at once
//	                                            where Filter had merely estimated
//	            UnschedulableAndUnresolvable    its decision cannot be written: an update of what it asks for
//	Bind        Skip                            the pod passes untouched: DefaultBinder binds it
//	            Success                         Binding and decision are written
//	            Unschedulable, Pending          the node has changed its mind: wake.RoundPause later
//	            Error                           the API server refused, or the outcome is in doubt: its
//	                                            back-off; in doubt, its place stays taken
package scheduler
