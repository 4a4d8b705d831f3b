// Package scheduler is Berth's plugin for kube-scheduler: extension points, arguments and metrics.
// It has no placement logic: package placement predicts the decisions of kubelets, package ledger
// computes the possible states of a node, package nodes stores the nodes' answers, package wake
// chooses which waiting pods are tried again, and package handover makes a change of leaders safe.
//
// PreFilter parses the pod once, and chooses one of five implementations of the later extension
// points (type way). Filter asks a node's ledger for a verdict, or uses a stored answer. Reserve
// chooses the pod's NUMA nodes, or predicts the kubelet's choice, and reserves the resources. Bind
// decides again, and writes the Binding and the decision in one request, with one request at a time
// per node. The node's next report shows whether the pod got what was decided.
//
// If a node's report is missing, stale, contradictory or invalid, the plugin refuses the node for
// every pod for which a kubelet could pin something, and gives the reason. On nodes where a kubelet
// decides, the plugin ignores pods for which no kubelet pins anything, unless they request a
// specific number of NUMA nodes or exclusive NUMA nodes (cycle.passes). On nodes with authority
// berth, the plugin decides about every pod, except members of gangs and PodGroups for which no
// kubelet would pin anything. Unless Koordinator's koordlet carries out the decisions, the Binding
// also has an annotation that lets containers start only while the agent's NRI plugin runs. Pods do
// not wait for reports on these nodes, because the agent or koordlet carries out each decision.
//
// # Answers of the extension points, and what wakes the pod after each
//
// After a failed attempt, the pod waits in the queue of unschedulable pods. The result of the
// attempt is written into the pod outside of the scheduling loop (package outcome). kube-scheduler
// preempts only if some node answered Unschedulable and PostFilter allows it. If an answer makes
// the pod wait, the text after the colon names what wakes it.
//
//	PreFilter   Skip                            nothing is pinned for the pod: it passes untouched
//	            UnschedulableAndUnresolvable    the pod cannot be read: an update of its request
//	            UnschedulableAndUnresolvable    initial reports or the takeover are missing: wake.WakeAll
//	Filter      Success                         the node admits the pod
//	            Pending                         the node waits for a report: that report; wake.NodeChanged
//	            Pending                         the pod fits, but its CPUs are not certain: Args.Patience
//	            Unschedulable                   the node refuses the pod, and evictions may help:
//	                                            wake.NodeChanged; deletion of a pod there (a queueing hint)
//	            UnschedulableAndUnresolvable    refused even if empty, or the node has a weaker policy:
//	                                            wake.NodeReturned, when the node has changed
//	            UnschedulableAndUnresolvable    no usable report, or no heartbeat: wake.NodeReturned
//	PostFilter  UnschedulableAndUnresolvable    a node waits: no pod is evicted before its report. After
//	                                            wake.ReportLimit the pod is tried again, and may preempt
//	            Unschedulable                   the reasons per NUMA node; preemption runs next
//	PreScore    Skip                            the pod passes untouched, or nothing is pinned
//	Score       0 to 100                        the rank of a node that admits the pod
//	Reserve     Success                         the ledger has reserved the pod's place
//	            Unschedulable, Pending          the node's answer has changed: wake.RoundPause later; at once
//	                                            if Filter only had an estimate
//	            UnschedulableAndUnresolvable    the decision cannot be written: an update of the pod's request
//	Bind        Skip                            the pod passes untouched: DefaultBinder binds it
//	            Success                         Binding and decision are written
//	            Unschedulable, Pending          the node's answer has changed: wake.RoundPause later. Before
//	                                            Pending, Bind has waited reportPatience for a report, or
//	                                            wake.ReportLimit if the pod is a planned member of a gang
//	            Error                           the API server refused, or the result is unknown: the end of
//	                                            the back-off. If unknown, the place stays reserved
package scheduler
