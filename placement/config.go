package placement

import (
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

// Version is a kubelet release. Decisions differ between releases; NewModel refuses one that it
// does not know.
type Version = release.Version

// The releases whose decisions are known.
const (
	V133 = release.V133
	V134 = release.V134
	V135 = release.V135
	V136 = release.V136
	V137 = release.V137
)

// Config is the part of a KubeletConfiguration that decides about placement. Strings are spelled as
// in KubeletConfiguration (kubelet.config.k8s.io/v1beta1). NewModel validates all of them and does
// not replace an unknown one by a default. The zero value is a kubelet's default: policies none.
type Config struct {
	// Version is the kubelet's release; 0 means V136.
	Version Version

	CPUManagerPolicy        string // "", "none", "static"
	CPUManagerPolicyOptions map[string]string
	// ReservedSystemCPUs is a kernel CPU list; when empty, ReservedMilliCPU counts.
	ReservedSystemCPUs string
	// ReservedMilliCPU is kubeReserved + systemReserved CPU, in thousandths of a CPU.
	ReservedMilliCPU int64

	MemoryManagerPolicy string // "", "None", "Static"
	ReservedMemory      []ReservedMemory
	// NodeReserved is what reservedMemory must add up to, by resource name ("memory",
	// "hugepages-2Mi"), in bytes: kubeReserved + systemReserved + the hard eviction threshold. Nil:
	// not known, the sum is not checked.
	NodeReserved map[string]uint64

	TopologyManagerPolicy        string // "", "none", "best-effort", "restricted", "single-numa-node"
	TopologyManagerScope         string // "", "container", "pod"
	TopologyManagerPolicyOptions map[string]string

	FeatureGates map[string]bool

	// Authority is who chooses on the node. KubeletConfiguration does not say.
	Authority Authority

	// Default is the policy and the scope that hold if Berth decides and neither the pod nor the
	// kubelet's configuration says anything, and how CPUs of a container's own lie on cores,
	// whatever the pod prefers.
	Default Rules
	// MemoryStays means that whoever carries Berth's decisions out leaves memory where the kernel
	// puts it (cpuset.mems): pods that want it pinned are kept away.
	MemoryStays bool
	// Strategy is which NUMA nodes are filled first if Berth decides.
	Strategy joint.Strategy

	// Providers hand out resources of their own if Berth decides. If the kubelet does, pods that
	// ask for these are refused.
	Providers []Provider
	// Devices are the resources whose devices Berth hands out whole, if it decides: see DevicesOf.
	// Others are the kubelet's.
	Devices []DeviceKind

	// GuardDefects refuses, with the reason KubeletDefect, what a scheduler should not do to a node
	// because of a known defect of the kubelet. Without it the engine does what the kubelet does,
	// as replaying must; only if the kubelet would hang or crash there is nothing to do, and
	// KubeletDefect is the answer in any case. It also refuses what the kubelet refuses after all
	// its managers have admitted it (PodLevelOff).
	GuardDefects bool
	// GuardRestarts refuses pods after which a restart of a kubelet before 1.37 would kill
	// containers: with full-pcpus-only it asks again for as many free whole cores as each container
	// has already, so that no more than half of the CPUs can be used. And it refuses pods that a
	// restart of any kubelet would place once more (DefectRestartRepeats).
	GuardRestarts bool
}

// ReservedMemory is one entry of KubeletConfiguration.reservedMemory.
type ReservedMemory struct {
	NUMA topology.NUMAID
	// Limits is bytes by resource name.
	Limits map[string]uint64
}

// ConfigError names the field of a Config because of which the kubelet would not start, or the
// engine cannot predict it. The field may be wrong only for this KubeletView.
type ConfigError struct {
	Field string // as in KubeletConfiguration, "cpuManagerPolicyOptions[full-pcpus-only]"
	Value string
	Want  string // what would be right
	// Unsupported is true when the kubelet would start but its decisions cannot be predicted or are
	// known to be broken.
	Unsupported bool
}

func (e *ConfigError) Error() string {
	return e.Field + ": " + quoteShort(e.Value) + ": want " + e.Want
}
