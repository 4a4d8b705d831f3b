// Package protocol is a small exhaustive model of how a Berth scheduler, the API server, the
// kubelets and the agents talk: two nodes, three pods, and every interleaving of Bindings, watches,
// reports, crashes and late releases.
//
// Check walks every reachable state of a Config breadth first and returns the shortest run that
// breaks a promise: a pod refused by its kubelet, CPUs promised twice, a prediction marked exact
// that turns out wrong, a victim evicted for nothing, or a pod that fits and is left waiting. Each
// law of the cluster is made of Rules, and each Rule can be switched off, so that the tests show
// what it closes. testdata has the runs.
//
// The model is pure: no clock, no randomness, no I/O. It shares no code with the scheduler, on
// purpose: it states what the scheduler must do. Only its tests run it, so it stands under test/.
package protocol
