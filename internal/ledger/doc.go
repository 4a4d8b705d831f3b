// Package ledger keeps, for every node, what the scheduler must know to predict its kubelet: the node's state as a
// function of its last full report and of the pods since.
//
// The function has three steps. The report of the node's agent is the start. Pods that may end, or whose containers
// may start, at a moment that nobody told us are events that may or may not have happened. Pods that are bound but
// not yet reported are admitted in the order in which their Bindings were written. Because of the events there can be
// several possible states; each is a world, and a pod is admitted only if every world admits it. Where worlds
// disagree the pod waits for the next report, which settles the matter.
//
// Nothing here is a running total: every Node can be computed again from its report and its pods, and only caches the
// result. The package has no clock and does no I/O; moments are handed in.
//
// Glossary: a pod is in flight from Reserve until a report lists it. It is posted once its Binding may have been
// written; posted pods are in the order of their Bindings, the reserved ones come after them. A pod is afloat when it
// is bound but its place in that order is not known.
package ledger
