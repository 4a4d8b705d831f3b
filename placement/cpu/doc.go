// Package cpu reproduces the kubelet's static CPU manager: its hints for a number of CPUs, and its
// choice of CPUs.
//
// A Node (the kubelet's discovery) and Options are compiled once into a Topology, which is
// immutable and safe for concurrent use. Hints, Allocate and Take are pure functions of the
// Topology and of CPU sets: no clock, no randomness, no I/O, and no allocation. They reproduce
// pkg/kubelet/cm/cpumanager (policy_static.go, cpu_assignment.go, topology/topology.go) of the
// release in Options.Version, including its defects.
package cpu
