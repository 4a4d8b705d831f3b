// Package ledger computes the state of every node from which the scheduler predicts the node's
// kubelet. The state is a function of the last full report and of the later pods.
//
// The function has three steps. It starts with the report of the node's agent. The second step adds
// events: pods that may end, or whose containers may start, at an unknown moment. Each event may or
// may not have happened. The third step admits pods that are bound but not yet reported, in the
// order of their Bindings. Because of the events there can be several possible states. Each is a
// world, and a pod is admitted only if every world admits it. If worlds disagree, the pod waits for
// the next report.
//
// A pod may also leave during the admission of another pod, which takes several steps. If this
// makes a difference, the resulting states are worlds too.
//
// The kubelet follows the order of the Bindings until its watch breaks. Then, or when the kubelet
// restarts, it receives all remaining pods in one batch, sorted by the second of creation. So the
// ledger admits a pod after other pods in flight only in two cases. Either the pod was created in a
// later second, or the node admits it in every possible order and keeps its promises to the others.
// Pods for which the kubelet pins nothing do not count. If orders differ only in the positions of
// pods with equal requests, the ledger considers one of them. Pods that are reserved together and
// can be admitted in one order only form waves (wave.go).
//
// There are no running totals: a Node can be computed from its report and its pods, and only caches
// the result. The package has no clock and does no I/O; callers pass the time. The test cases in
// testdata show all of this.
//
// # Where Berth decides
//
// A node with authority berth needs none of this, because a decision is binding. There is one
// state, the order has no effect, and every decision is exact (obey.go).
//
// # What is assumed
//
// An exact decision depends on two assumptions. The first is about the time to stop the containers
// of a deleted pod. This time must be longer than the sum of two delays: until the scheduler learns
// of the deletion, and until the kubelet learns of a Binding that the scheduler has written by
// then. The second is that a pod without a deadline whose containers are always restarted ends only
// by deletion. If an assumption is wrong, CPUs may differ from a prediction. The first assumption
// is wrong for a pod that is deleted by force, because its kubelet releases it at once, and for a
// pod that is deleted before it has containers. A promise that breaks for this reason counts as
// contended (Gone, See).
//
// Admission depends on one assumption, about a bound pod that leaves the API before any report
// lists it. The ledger assumes that such a pod has also left the kubelet after some time in which
// the agent has reported or renewed its Lease. Without a report it waits longer, and without a Node
// only a short time (ForgetGone). If the scheduler heard of a deletion too late, the broken promise
// counts as contended (See).
//
// # What is bounded
//
// A node has at most 6 events and 96 worlds (maxEvents, maxWorlds). With more, its pods wait for a
// report, which resolves events. If another scheduler binds the pods, the ledger considers more
// (boundsOf, Foresee). If pods can end by themselves, the ledger considers every set of up to 3 of
// them (maxMortals). With more, a decision is not exact.
//
// # Glossary
//
// A pod is in flight from Reserve until a report lists it. It is reserved until its Binding may
// have been written, and posted from then on. Posted pods are in the order of their Bindings, and
// reserved pods come after them. A bound pod is afloat if its position in that order is not known.
// A promise is contended if an event outside of Berth may break it. A node is flooded if there are
// more possibilities than the ledger considers.
package ledger
