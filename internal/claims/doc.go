// Package claims compares the NUMA nodes of devices that Dynamic Resource Allocation assigns with
// the NUMA nodes of a pod's CPUs and memory. It is pure. Its inputs are ResourceSlices, claims and
// the machine in a node's report.
//
// Read finds the NUMA node of every device that a node can use (Inventory). Judge compares the
// devices of allocated claims with the containers that use them (Judgement). Stock counts the
// devices that each request could get, by NUMA node. With these counts, the engine can place a pod
// near devices. Inventory.Show removes devices on other NUMA nodes from a copy of a ResourceSlice,
// so that an allocator chooses only among the remaining devices. Unserved returns the reason why
// Berth cannot align a claim.
//
// # Where a device is
//
// The first source that gives a NUMA node counts, in this order:
//
//	resource.kubernetes.io/numaNode   a number, or the first of a list (KEP-6072)
//	attributes of drivers             Sources.NUMA: a number, or the first of a list
//	PCI addresses                     Sources.Address, looked up in the machine of the report
//	resource.kubernetes.io/pcieRoot   if all devices of the machine on that root have one NUMA node
//	the parent of a partition         devices with the same counter set, if all on one NUMA node
//
// A negative number gives no NUMA node. A device is neutral if no source gives a NUMA node, or if
// several nodes of the cluster can use it (a network-attached device). A neutral device counts as
// near to every NUMA node. If a source has the wrong type, names a NUMA node that the machine
// lacks, or contradicts the machine's PCI tree, Place.Odd describes the problem.
package claims
