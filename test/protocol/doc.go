// Package protocol is a small exhaustive model of the communication between a Berth scheduler, the
// API server, the kubelets and the agents. It has two nodes, three pods, and every interleaving of
// Bindings, watches, reports, crashes and late releases.
//
// Check walks every reachable state of a Config breadth first and returns the shortest run that
// breaks a promise: a pod refused by its kubelet, CPUs promised twice, a wrong prediction marked
// exact, a useless eviction, or a pod that fits and waits forever. Each law of the cluster consists
// of Rules. Each Rule can be switched off, so that the tests show its purpose. testdata has the
// runs.
//
// The model is pure: no clock, no randomness, no I/O. It deliberately shares no code with the
// scheduler, because it states what the scheduler must do. Only its tests run it, so it is under
// test/.
package protocol
