// Package ledger computes the states in which each node may be. From them, the scheduler predicts
// the answers of the node's kubelet. The states are a function of the node's last report and of the
// pods that were bound later.
//
// The function has three steps. First, it takes the state in the report of the node's agent.
// Second, it adds the events that may or may not have happened since the report: a pod ends, a
// container starts, or the kubelet admits a pod whose position in the order is not known. Third, it
// admits the pods in flight, which no report lists yet, in the order of their Bindings. Because of
// the events, several states can be possible. Each of them is a world. A pod is admitted only if
// every world admits it. If some worlds admit the pod and others refuse it, the pod waits for the
// next report.
//
// An admission takes several steps, and other pods may leave between two steps. If this changes the
// result, the additional states are worlds too.
//
// The kubelet admits pods in the order of their Bindings until its watch breaks. When the watch
// breaks, or when the kubelet restarts, the kubelet receives all remaining pods in one batch, and
// sorts them by the second of creation. So while pods are in flight, the ledger admits another pod
// only in two cases. Either the pod was created in a later second than all of them, or the node
// admits the pod in every possible order and keeps its promises to the other pods. Pods for which
// the kubelet pins nothing do not count, and if a report has only amounts, the order does not
// matter. If orders differ only in the positions of pods with equal requests, the ledger considers
// one of them. If pods are reserved together and the node admits them in only one order, the pods
// form waves (wave.go).
//
// A Node stores its report and its pods, and caches the states that follow from them. The package
// reads no clock and does no I/O; callers pass the time. The test cases in testdata show examples.
//
// # Where Berth decides
//
// On a node with authority berth a decision is binding. There is only one state, the order of
// Bindings has no effect, and every decision is exact (obey.go).
//
// # What is assumed
//
// An exact decision depends on two assumptions. The first is about the time that it takes to stop
// the containers of a deleted pod. This time must be longer than the sum of two delays: the delay
// until the scheduler learns of the deletion, and the delay until the kubelet learns of a Binding
// that the scheduler wrote before it knew. The second assumption is that a pod ends only by
// deletion if it has no deadline and its containers are always restarted. If an assumption is
// wrong, a pod may get other CPUs than predicted. The first assumption is wrong for a pod that is
// deleted by force, because its kubelet releases it at once, and for a pod that is deleted before
// it has containers. A promise that is broken for this reason counts as contended (Gone, See).
//
// A prediction that the node admits a pod depends on one assumption. If a bound pod leaves the API
// before any report lists it, the ledger assumes after some time that the pod has also left the
// kubelet. The agent must have reported or renewed its Lease by then. If the node has no report,
// the ledger waits longer. If the Node object is missing, the ledger waits only a short time
// (ForgetGone). If the scheduler heard of a deletion too late, the broken promise counts as
// contended (See).
//
// # What is bounded
//
// The ledger considers at most 6 events and 96 worlds of a node (maxEvents, maxWorlds). If there
// are more, new pods wait for a report, which shows which events have happened. If another
// scheduler binds the pods, the bounds are higher (boundsOf, Foresee). If up to 3 pods can end by
// themselves, the ledger considers every set of them (maxMortals). If more than 3 can, no Binding
// has an exact decision, unless Berth decides.
//
// # Glossary
//
// A pod is in flight from Reserve until a report lists it. It is reserved until its Binding may
// have been written, and posted from then on. Posted pods are in the order of their Bindings, and
// reserved pods come after them. A pod is afloat if it is bound, or may be bound, and its position
// in that order is not known. A promise is contended if it may be broken although the decision was
// right. A node is flooded if its states cannot be computed, for example because there are more
// possibilities than the ledger considers. Every new pod then waits.
package ledger
