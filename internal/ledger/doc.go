// Package ledger keeps, for every node, what the scheduler must know to predict its kubelet: the
// node's state as a function of its last full report and of the pods since.
//
// The function has three steps. The report of the node's agent is the start. Then come events: pods
// that may end, or whose containers may start, at a moment that nobody told us; each may or may not
// have happened. Last, pods that are bound but not yet reported are admitted in the order in which
// their Bindings were written. Because of the events there can be several possible states. Each is
// a world, and a pod is admitted only if every world admits it. Where worlds disagree the pod waits
// for the next report, which settles the matter.
//
// A pod may also leave while another one is being admitted, which takes several steps. Where that
// makes a difference, the states that come of it are worlds, too.
//
// The order of the Bindings holds as long as the kubelet's watch does. When it breaks, or the
// kubelet restarts, what has not been admitted comes in one batch, sorted by the second of
// creation. A pod is therefore placed behind others in flight only in two cases: it was created in
// a later second; or in every possible order it is admitted and none of the others loses what it
// was promised. Pods for which the kubelet pins nothing do not count. If orders differ only in the
// places of pods that ask for the same, the ledger considers one of them. Pods that are reserved
// together, and admitted in one order alone, come in waves (wave.go).
//
// Nothing here is a running total: every Node can be computed again from its report and its pods,
// and only caches the result. The package has no clock and does no I/O; moments are handed in. The
// stories in testdata show all of it.
//
// # Where Berth decides
//
// On a node with authority berth none of this is needed: a decision binds. There is one state, no
// order, and every decision is exact; obey.go says the rest.
//
// # What is assumed
//
// A decision is marked exact on two assumptions about speed. Stopping the containers of a deleted
// pod takes longer than the scheduler takes to hear of the deletion, plus the kubelet to hear of a
// Binding written until then. A pod that has no deadline, and whose containers are started again
// whatever they end with, ends only when it is deleted. Where they fail, CPUs may differ from a
// prediction. The first fails for a pod that is deleted by force, as its kubelet lets go of it at
// once, and for one that is deleted before it has containers. Such a broken promise is told as
// contended (Gone, See).
//
// Admission rests on one: a pod that was bound, and has left the API before any report listed it,
// has left the kubelet, too, once its agent has been heard for a while after, or, without a report,
// after long enough, or once there is no Node either (ForgetGone). Where a deletion was heard of
// too late, the broken promise is told as contended (See).
//
// # What is bounded
//
// A node has at most 6 events and 96 worlds (maxEvents, maxWorlds). With more its pods wait for a
// report, which takes events away. If pods can end by themselves the ledger considers every set of
// them, up to 3 pods (maxMortals); with more a decision is not exact.
//
// # Glossary
//
// A pod is in flight from Reserve until a report lists it. It is reserved until its Binding may
// have been written, and posted from then on: posted pods are in the order of their Bindings, the
// reserved ones come after them. It is afloat when it is bound but its place in that order is not
// known. A promise is contended when it is nobody's mistake if it breaks. A node is flooded when
// there are more possibilities than the ledger considers.
package ledger
