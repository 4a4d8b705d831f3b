// Package topology describes a machine's hardware as values: packages, dies, NUMA nodes, L3 caches,
// cores, logical processors and devices, in hwloc's words.
//
// Every kind of object has an id type of its own. An id is the operating system's number for the
// object (hwloc's P#); a position in one of our slices is an int and is never an id (hwloc's L#).
//
// The package does no I/O and imports only the standard library.
package topology
