// Package ledger keeps, for every node, what the scheduler must know to predict its kubelet: the
// node's state as a function of its last full report and of the pods since.
//
// The function has three steps. It starts with the report of the node's agent. Then come events:
// pods that may end, or whose containers may start, at an unknown moment. Each may or may not have
// happened. Last, pods that are bound but not yet reported are admitted in the order of their
// Bindings. Because of the events there can be several possible states. Each is a world, and a pod
// is admitted only if every world admits it. If worlds disagree, the pod waits for the next report.
//
// A pod may also leave while another one is being admitted, which takes several steps. If this
// makes a difference, the resulting states are worlds too.
//
// The kubelet follows the order of the Bindings until its watch breaks. Then, or when the kubelet
// restarts, all pods that are not admitted yet come in one batch, sorted by the second of creation.
// A pod is therefore placed behind others in flight only in two cases: it was created in a later
// second, or it is admitted in every possible order and none of the others loses what it was
// promised. Pods for which the kubelet pins nothing do not count. If orders differ only in the
// places of pods with equal requests, the ledger considers one of them. Pods that are reserved
// together and can be admitted in one order only come in waves (wave.go).
//
// There are no running totals: a Node can be computed from its report and its pods, and only caches
// the result. The package has no clock and does no I/O; callers pass the time. The stories in
// testdata show all of this.
//
// # Where Berth decides
//
// On a node with authority berth none of this is needed, because a decision binds. There is one
// state, no order, and every decision is exact (obey.go).
//
// # What is assumed
//
// A decision is marked exact under two assumptions. First, stopping the containers of a deleted pod
// takes longer than it takes the scheduler to hear of the deletion, plus the kubelet to hear of a
// Binding written until then. Second, a pod without a deadline whose containers are always
// restarted ends only when it is deleted. If one does not hold, CPUs may differ from a prediction.
// The first does not hold for a pod that is deleted by force, because its kubelet releases it at
// once, and for one that is deleted before it has containers. Such a broken promise counts as
// contended (Gone, See).
//
// Admission depends on one assumption: a bound pod that left the API before any report listed it
// has also left the kubelet when the agent has been heard for a while, or, without a report, after
// a long time, or when there is no Node (ForgetGone). If the scheduler heard of a deletion too
// late, the broken promise counts as contended (See).
//
// # What is bounded
//
// A node has at most 6 events and 96 worlds (maxEvents, maxWorlds). With more, its pods wait for a
// report, which resolves events. If pods can end by themselves, the ledger considers every set of
// up to 3 of them (maxMortals); with more, a decision is not exact.
//
// # Glossary
//
// A pod is in flight from Reserve until a report lists it. It is reserved until its Binding may
// have been written, and posted from then on. Posted pods are in the order of their Bindings, and
// reserved pods come after them. A bound pod is afloat if its place in that order is not known. A
// promise is contended if an event outside of Berth may break it. A node is flooded if there are
// more possibilities than the ledger considers.
package ledger
