// Package cpu knows what the kubelet's static CPU manager does: which NUMA nodes it hints at for a
// number of CPUs, and which CPUs it then takes.
//
// A Node (what the kubelet discovered) and Options are compiled once into a Topology, which is
// immutable and safe for concurrent use. Hints, Allocate and Take are pure functions of it and of
// the CPU sets they are given: no clock, no randomness, no I/O, and no allocation. They reproduce
// pkg/kubelet/cm/cpumanager (policy_static.go, cpu_assignment.go, topology/topology.go) of the
// release that Options.Version names, its defects included.
package cpu
