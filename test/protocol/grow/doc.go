// Package grow is a small exhaustive model of a pod that is resized in place on a node where Berth
// decides. The scheduler writes a decision with a larger generation, the kubelet changes amounts as
// soon as the node's total allows it, and the agent moves the container and reads its cgroup.
//
// The node has CPUs 0 and 1 and two units of memory on one NUMA node. Pod a runs there with one CPU
// and one unit, or with two of each. Pod b is created once, requests one of each, and may leave.
//
// Check walks every reachable state breadth first and returns the shortest run that breaks a
// promise: two containers on one CPU, more memory than the NUMA node has, a valid decision that
// must wait, or a resize or pod that fits and waits forever. Each Rule can be switched off, so that
// the tests show its purpose. testdata has the runs.
//
// Package obey models how shared containers leave CPUs, and how pods come and go.
package grow
