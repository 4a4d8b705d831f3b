// Package topology describes a machine's hardware as values: packages, dies, NUMA nodes, L3 caches,
// cores, logical processors and devices, in hwloc's words.
//
// Every kind of numbered object has its own id type. An id is the operating system's number of the
// object (hwloc's P#). Devices are named by their PCI addresses. The index of an object in a slice
// (hwloc's L#) is an int, and is never used as an id.
//
// The package does no I/O and imports only the standard library.
package topology
