// Package ledger keeps, for every node, what the scheduler must know to predict its kubelet: the node's state as a
// function of its last full report and of the pods since.
//
// The function has three steps. The report of the node's agent is the start. Pods that may end, or whose containers
// may start, at a moment that nobody told us are events that may or may not have happened. Pods that are bound but
// not yet reported are admitted in the order in which their Bindings were written. Because of the events there can be
// several possible states; each is a world, and a pod is admitted only if every world admits it. Where worlds
// disagree the pod waits for the next report, which settles the matter.
//
// The order of the Bindings holds as long as the kubelet's watch does. When it breaks, or the kubelet restarts, what has
// not been admitted comes in one batch, sorted by the second of creation. A pod is therefore placed behind others that
// are in flight only if it was created in a later second, or if in every order that is possible it is admitted and none
// of the others loses what it was promised. Pods for which the kubelet pins nothing do not count, and of orders that differ only in
// the places of pods that ask for the same, one is gone through.
//
// # What is assumed
//
// A decision is marked exact on two assumptions about speed: stopping the containers of a deleted pod takes longer than
// the scheduler takes to hear of the deletion plus the kubelet to hear of a Binding written until then; and a pod that has no
// deadline, and whose containers are started again whatever they end with, ends only when it is deleted. Where they fail, CPUs
// may differ from a prediction. Admission rests on one: a pod that was bound, and has left the API before any report listed it,
// has left the kubelet, too, when its agent has been heard for a while after (ForgetGone) or, where there is no report, after long
// enough (Expire). Where a deletion was heard of too late, the broken promise is told as contended (See).
//
// # What is bounded
//
// A node has at most 6 events and 96 worlds (maxEvents, maxWorlds): with more its pods wait for a report, which takes events
// away. Pods that can end by themselves are gone through one set after the other where there are at most 3 (maxMortals); with
// more a decision is not exact.
//
// Nothing here is a running total: every Node can be computed again from its report and its pods, and only caches the
// result. The package has no clock and does no I/O; moments are handed in.
//
// Glossary: a pod is in flight from Reserve until a report lists it. It is posted once its Binding may have been
// written; posted pods are in the order of their Bindings, the reserved ones come after them. A pod is afloat when it
// is bound but its place in that order is not known.
package ledger
