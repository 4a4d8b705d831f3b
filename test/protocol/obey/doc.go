// Package obey is a small exhaustive model of one node on which Berth decides. Its actors are a
// scheduler whose Bindings carry the CPUs, a kubelet, a container runtime that asks the agent
// before it creates a container, and the agent. The model includes their failures.
//
// Check walks every reachable state of a Config breadth first and returns the shortest run that
// breaks a promise: two containers pinned to one CPU, a shared container on a pinned CPU, a
// container that does not run as decided, a valid decision that must wait for another pod's CPUs, a
// difference that no report shows, or a pod that fits and does not run. Each Rule can be switched
// off, so that the tests show its purpose. testdata has the runs.
//
// The model is pure and shares no code with scheduler or agent: it states what they must do. It
// begins after the Binding. Package protocol models races between Bindings.
package obey
