// Package cpu reproduces the kubelet's static CPU manager: its hints for a number of CPUs, and its
// choice of CPUs.
//
// New compiles a Node (the machine as the kubelet discovers it) and Options into a Topology, which
// is immutable and safe for concurrent use. Hints, Allocate and Take are pure functions of the
// Topology and of CPU sets, and allocate no memory. The package reproduces
// pkg/kubelet/cm/cpumanager (policy_static.go, cpu_assignment.go, topology/topology.go) of the
// release in Options.Version, including its defects.
package cpu
