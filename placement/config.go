package placement

import (
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

// Version is a kubelet release. Decisions differ between releases, and NewModel refuses an unknown
// release.
type Version = release.Version

// The Kubernetes releases whose kubelet the engine can predict.
const (
	V133 = release.V133
	V134 = release.V134
	V135 = release.V135
	V136 = release.V136
	V137 = release.V137
)

// Config is the part of a KubeletConfiguration that affects placement. The strings in a Config use
// the spelling of KubeletConfiguration (kubelet.config.k8s.io/v1beta1). NewModel validates all
// strings, and does not replace an unknown string by a default. The zero value is the kubelet's
// default, with the policy none for all managers.
type Config struct {
	// Version is the kubelet's release; 0 means V136.
	Version Version

	CPUManagerPolicy        string // "", "none", "static"
	CPUManagerPolicyOptions map[string]string
	// ReservedSystemCPUs is a list of CPUs and ranges without blanks, such as "0-3,8". If it is
	// empty, ReservedMilliCPU determines the reserved CPUs.
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

	// Authority is the program that assigns resources on the node. KubeletConfiguration has no such
	// field.
	Authority Authority

	// Default applies to nodes on which Berth decides. If the kubelet's policy is none,
	// Default.Policy and Default.Scope replace the kubelet's policy and scope. A pod's own policy
	// and scope override both. Default.CPUs.Bind, the rule for whole cores, overrides a pod's
	// preference.
	Default Rules
	// MemoryStays means that the program that carries out Berth's decisions does not write
	// cpuset.mems. Berth then refuses pods that require pinned memory.
	MemoryStays bool
	// Strategy determines the order in which Berth fills the NUMA nodes. It has no effect if the
	// kubelet decides.
	Strategy joint.Strategy

	// Providers assign their own resources if Berth decides. If the kubelet decides, the engine
	// refuses pods that ask for these resources.
	Providers []Provider
	// Devices are the kinds of devices that Berth assigns; see DevicesOf. The kubelet assigns the
	// devices of all other resources. Devices has no effect if the kubelet decides.
	Devices []DeviceKind

	// With GuardDefects, the engine refuses pods that would trigger a known defect of the kubelet,
	// with the reason KubeletDefect. Without GuardDefects, it answers as the kubelet does, for
	// example to replay recorded decisions. If the kubelet would hang or crash, the reason is
	// KubeletDefect in both cases. GuardDefects also enables PodLevelOff, a refusal after all
	// managers have accepted the pod.
	GuardDefects bool
	// With GuardRestarts, the engine refuses a pod if a later restart of the kubelet would kill
	// containers. After a restart, a kubelet before 1.37 with full-pcpus-only checks each running
	// container: as many whole cores must be free as the container already has. So as many CPUs as
	// the largest container has must stay free on whole cores. The engine also refuses pods that a
	// kubelet would place again after a restart (DefectRestartRepeats). Berth's own programs do not
	// set GuardRestarts.
	GuardRestarts bool
}

// ReservedMemory is one entry of KubeletConfiguration.reservedMemory.
type ReservedMemory struct {
	NUMA topology.NUMAID
	// Limits is bytes by resource name.
	Limits map[string]uint64
}

// ConfigError is an error about a field of a Config. Because of the field's value, the kubelet does
// not start, or the engine cannot predict the kubelet. The same value may be valid on another
// machine.
type ConfigError struct {
	Field string // as in KubeletConfiguration, such as "cpuManagerPolicyOptions[full-pcpus-only]"
	Value string
	Want  string // the expected value
	// Unsupported is true if the kubelet might start, but the engine does not predict it, for
	// example because of a known defect.
	Unsupported bool
}

func (e *ConfigError) Error() string {
	return e.Field + ": " + quoteShort(e.Value) + ": want " + e.Want
}
