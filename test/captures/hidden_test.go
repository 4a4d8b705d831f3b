package captures

// Reasons why upstream's output differs from the files of a capture.
const (
	restricted = "lstopo ran inside a cgroup or cpuset and shows the CPUs and nodes that the process was allowed to use; " +
		"sysfs, and so the kubelet, knows no such limits"
	gpuMemory   = "hwloc hides the NUMA nodes of GPU memory unless HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES is set; the kernel lists them as nodes without CPUs"
	conflicting = "upstream edited core_siblings and shared_cpu_map so that packages and caches overlap, and hwloc drops what conflicts; " +
		"the lists beside the masks are intact, and we read those"
	memoryless = "hwloc leaves out nodes without memory; the kernel lists them, and devices may name them"
	knlCache   = "hwloc shows the MCDRAM of a Knights Landing in cache mode as a level-3 cache, from /proc/cpuinfo and firmware tables"
	overlaps   = "lstopo ran with HWLOC_DEBUG_ALLOW_OVERLAPPING_NODE_CPUSETS; overlapping nodes are impossible on Linux, and we drop them as hwloc does without it"
	sharedIDs  = "pairs of packages have the same physical_package_id; ids are unique for us, so we number them all"
)

// hidden lists intended differences of upstream's output, by capture and aspect, with the reason.
// The test fails if a listed capture agrees.
var hidden = map[string]map[string]string{
	"16amd64-4n4c-cgroup-distance-merge": {
		"cpus": restricted, "package": restricted, "core": restricted, "l3": restricted, "numa": restricted, "distances": restricted,
	},
	"32amd64-4s2n4c-cgroup2": {
		"cpus": restricted, "package": restricted, "core": restricted, "l3": restricted, "numa": restricted, "distances": restricted,
	},
	"16amd64-8n2c-cpusets": {
		"cpus": restricted, "package": restricted, "core": restricted, "numa": restricted, "distances": restricted,
	},
	"16em64t-4s2ca2c-cpusetreorder": {
		"cpus": restricted, "package": restricted, "core": restricted, "l3": restricted, "numa": restricted,
	},
	"4fake-4gr1nu1pu":                 {"cpus": restricted, "package": restricted, "numa": restricted},
	"nvidiagpunumanodes":              {"numa": gpuMemory, "distances": gpuMemory},
	"40intel64-4n10c+pci-conflicts":   {"package": conflicting, "l3": conflicting},
	"fakememinitiators-1np2c+1npp+gi": {"numa": memoryless, "distances": memoryless},
	"64intel64-fakeKNL-A2A-cache":     {"l3": knlCache},
	"64intel64-fakeKNL-SNC4-hybrid":   {"l3": knlCache},
	"fakeheterocpunuma":               {"numa": overlaps, "memory": overlaps, "distances": overlaps},
	"16ia64-8n2s":                     {"package": sharedIDs},
}
