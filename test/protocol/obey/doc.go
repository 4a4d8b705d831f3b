// Package obey is a small exhaustive model of one node that obeys (authority berth): a scheduler
// whose Bindings carry the CPUs, a kubelet, a container runtime that asks the agent before it
// creates a container, the agent, and what happens to them all.
//
// Check walks every reachable state of a Config breadth first and returns the shortest run that
// breaks a promise: two containers pinned to one CPU, a shared container on a pinned CPU, a
// container beside its decision, a genuine decision that has to wait for somebody else's CPUs, a
// difference that no report shows, a pod that fits and does not run. Each Rule can be switched off,
// so that the tests show what it closes. testdata has the runs.
//
// The model is pure and shares no code with scheduler or agent: it states what they must do. It
// begins where package protocol ends: how Bindings race with each other is modelled there.
package obey
