package topology

// CPUID is the operating system's number of a logical processor (hwloc: PU), as in
// /sys/devices/system/cpu/cpuN. Valid values are 0 to MaxCPUs-1.
type CPUID uint16

// NUMAID is the operating system's number of a NUMA node, as in /sys/devices/system/node/nodeN.
// Numbers may have gaps and go up to 65535. The kubelet accepts only numbers up to 63, so a NUMASet
// holds no others.
type NUMAID uint16

// PackageID is the operating system's number of a processor package (socket):
// topology/physical_package_id. Some platforms report -1 for "unknown".
type PackageID int32

// DieID is topology/die_id: unique inside its package.
type DieID int32

// CoreID is topology/core_id: unique inside its package (or its die), not on the machine.
type CoreID int32

// L3ID is the id of a level-3 cache: cache/indexN/id if the kernel has one, otherwise the lowest
// CPU that shares the cache.
type L3ID int32

// NoPackage is the package of a core or die that belongs to no package of the machine.
const NoPackage PackageID = -1
