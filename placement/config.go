package placement

import (
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

// Version is a kubelet release. Decisions differ between releases, and NewModel refuses an unknown
// release.
type Version = release.Version

// The releases that the engine can predict.
const (
	V133 = release.V133
	V134 = release.V134
	V135 = release.V135
	V136 = release.V136
	V137 = release.V137
)

// Config is the part of a KubeletConfiguration that affects placement. Its strings use the spelling
// of KubeletConfiguration (kubelet.config.k8s.io/v1beta1). NewModel validates all of them and does
// not replace an unknown one by a default. The zero value is a kubelet's default: policies none.
type Config struct {
	// Version is the kubelet's release; 0 means V136.
	Version Version

	CPUManagerPolicy        string // "", "none", "static"
	CPUManagerPolicyOptions map[string]string
	// ReservedSystemCPUs is a kernel CPU list. If it is empty, ReservedMilliCPU counts.
	ReservedSystemCPUs string
	// ReservedMilliCPU is kubeReserved + systemReserved CPU, in thousandths of a CPU.
	ReservedMilliCPU int64

	MemoryManagerPolicy string // "", "None", "Static"
	ReservedMemory      []ReservedMemory
	// NodeReserved is the required sum of reservedMemory in bytes, by resource name ("memory",
	// "hugepages-2Mi"): kubeReserved + systemReserved + the hard eviction threshold. If it is nil,
	// the sum is not checked.
	NodeReserved map[string]uint64

	TopologyManagerPolicy        string // "", "none", "best-effort", "restricted", "single-numa-node"
	TopologyManagerScope         string // "", "container", "pod"
	TopologyManagerPolicyOptions map[string]string

	FeatureGates map[string]bool

	// Authority is the program that chooses on the node. KubeletConfiguration has no such field.
	Authority Authority

	// Default has the policy and the scope for nodes on which Berth decides. They apply if neither
	// the pod nor the kubelet's configuration sets them. Default also sets the binding of exclusive
	// CPUs to cores, which overrides a pod's preference.
	Default Rules
	// MemoryStays means that the program that carries out Berth's decisions does not write
	// cpuset.mems. Berth then refuses pods that want pinned memory.
	MemoryStays bool
	// Strategy selects the NUMA nodes that are filled first if Berth decides.
	Strategy joint.Strategy

	// Providers assign their own resources if Berth decides. If the kubelet decides, it refuses
	// pods that ask for these resources.
	Providers []Provider
	// Devices are the resources whose devices Berth assigns if it decides; see DevicesOf. The
	// kubelet assigns all other devices.
	Devices []DeviceKind

	// GuardDefects refuses pods that would trigger a known defect of the kubelet, with the reason
	// KubeletDefect. Without it the engine behaves as the kubelet does, which a replay needs. If
	// the kubelet would hang or crash, the answer is KubeletDefect in any case. GuardDefects also
	// applies PodLevelOff, with which the kubelet refuses a pod after all managers.
	GuardDefects bool
	// GuardRestarts refuses pods after which a restart of a kubelet before 1.37 would kill
	// containers. With full-pcpus-only such a kubelet needs as many free whole cores as each
	// container already has, so no more than half of the CPUs can be used. It also refuses pods
	// that a restart of any kubelet would place again (DefectRestartRepeats). Berth's own programs
	// do not set it.
	GuardRestarts bool
}

// ReservedMemory is one entry of KubeletConfiguration.reservedMemory.
type ReservedMemory struct {
	NUMA topology.NUMAID
	// Limits is bytes by resource name.
	Limits map[string]uint64
}

// ConfigError names the field of a Config that prevents the kubelet's start or a prediction of its
// decisions. The same value may be valid with another KubeletView.
type ConfigError struct {
	Field string // as in KubeletConfiguration, "cpuManagerPolicyOptions[full-pcpus-only]"
	Value string
	Want  string // the expected value
	// Unsupported is true if the kubelet would start, but its decisions cannot be predicted or are
	// known to be broken.
	Unsupported bool
}

func (e *ConfigError) Error() string {
	return e.Field + ": " + quoteShort(e.Value) + ": want " + e.Want
}
