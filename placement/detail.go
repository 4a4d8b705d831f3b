package placement

// Detail is the rule that refused a pod. Several Details can have the same Reason.
type Detail uint8

// The rules. The comments quote the kubelet's message if there is one.
const (
	// NoDetail is the zero value: the pod is not refused.
	NoDetail Detail = iota

	// NotPreferred: "Resources cannot be allocated with Topology locality", because no set of NUMA
	// nodes is preferred by all resources.
	NotPreferred
	// NoneToShare: the cause is the same as for EmptySharedPool. The topology policy refuses the
	// pod first, because there are no hints.
	NoneToShare

	// NotWholeCores: "requested N cpus not multiple cpus per core".
	NotWholeCores
	// TooFewWholeCores: "not enough free physical CPUs".
	TooFewWholeCores

	// TooFewCPUs: "not enough cpus available to satisfy request".
	TooFewCPUs
	// CPUsNotFound: "failed to allocate cpus".
	CPUsNotFound
	// CPUAccounting: "accounting error, too many" or "not enough CPUs allocated".
	CPUAccounting

	// NoDefaultMemory: "failed to get the default NUMA affinity, no NUMA nodes with enough memory
	// is available".
	NoDefaultMemory
	// DefaultMemoryNotPreferred: "failed to find the default preferred hint".
	DefaultMemoryNotPreferred
	// NoMemoryExtension: "failed to find NUMA nodes to extend the current topology hint".
	NoMemoryExtension
	// MemoryExtensionNotPreferred: "failed to find the extended preferred hint".
	MemoryExtensionNotPreferred
	// MemoryGroup: "preferred hint violates NUMA node allocation".
	MemoryGroup
	// MemoryNotInteger: "failed to represent quantity as int64".
	MemoryNotInteger
	// NoMemoryAsked: up to 1.36, allocating memory for a container without a memory request of its
	// own can fail with any of the messages of the memory manager.
	NoMemoryAsked

	// EmptySharedPool: "pod rejected, sum of exclusive container cpu requests equals pod budget,
	// leaving no cpus for shared containers", or the same message about memory.
	EmptySharedPool

	// DeviceUnregistered: "cannot allocate unregistered device".
	DeviceUnregistered
	// NoHealthyDevice: "no healthy devices present; cannot allocate unhealthy devices".
	NoHealthyDevice
	// HeldDeviceUnhealthy: "previously allocated devices are no longer healthy".
	HeldDeviceUnhealthy
	// TooFewDevices: "requested number of devices unavailable".
	TooFewDevices
	// DeviceRequestChanged: "changed request for resource".
	DeviceRequestChanged

	// PodLevelOff: "PodLevelResources feature gate is disabled". Only with Config.GuardDefects,
	// because this refusal does not come from a manager.
	PodLevelOff

	// DefectHang: the CPU manager would loop forever with its lock held (full-pcpus-only with
	// distribute-cpus-across-numa and odd numbers of free CPUs; kubernetes#140730).
	DefectHang
	// DefectTooComplex: the kubelet would try too many combinations of NUMA nodes to finish in
	// time.
	DefectTooComplex
	// DefectSlowMerge: the kubelet would take minutes to merge the topology hints, because many
	// resources on many NUMA nodes give too many combinations.
	DefectSlowMerge
	// DefectForeignCPUs: the CPU manager would assign reserved CPUs or CPUs of other pods (cores
	// with unequal numbers of threads; kubernetes#140495, #124066).
	DefectForeignCPUs
	// DefectNoSharedCPU: strict-cpu-reservation would leave no shared CPU, and the kubelet could
	// not restart (kubernetes#141196).
	DefectNoSharedCPU
	// DefectRestartKills: after a restart the kubelet would refuse a running container
	// (SMTAlignmentError), because fewer whole cores are free than the container has. Only with
	// Config.GuardRestarts.
	DefectRestartKills
	// DefectRestartRepeats: a kubelet that restarts would place the pod by spec.resources again.
	// After the restart, the kubelet refuses the pod, or the pod's CPUs are lost and its memory
	// counts twice (kubernetes#140989, #140906). Only with Config.GuardRestarts.
	DefectRestartRepeats
	// DefectLateDevices: the kubelet places the pod by spec.resources, and would choose devices
	// only when a container starts. It would then take any free devices, on any NUMA nodes.
	DefectLateDevices
	// DefectMixedGroups: a NUMA node's memory would be in two groups at the same time, and the
	// kubelet could not restart.
	DefectMixedGroups
	// DefectUnequalGroup: memory would be allocated from NUMA nodes with different kinds of huge
	// pages, and the kubelet would crash at its restart (areMachineStatesEqual).
	DefectUnequalGroup
	// DefectMissingMemoryKind: the kubelet would crash, because some NUMA node has no row for a
	// requested kind of memory in the memory manager's table.
	DefectMissingMemoryKind
	// DefectNoRegularMemory: the kubelet would crash, because it looks up hints for ordinary memory
	// although only huge pages are requested.
	DefectNoRegularMemory
	// DefectVanishedDevice: the kubelet would crash, because the device plugin no longer lists a
	// device that the pod holds.
	DefectVanishedDevice
	// DefectWideDevices: the kubelet would take too long to find hints for devices, because it
	// tries all sets of NUMA nodes. The Detail is the same if devices are on NUMA nodes on which
	// the engine expects none.
	DefectWideDevices
	// DefectMemoryUnderflow: a NUMA node has less memory than its reservation and its huge pages
	// together. The kubelet subtracts unsigned numbers (getDefaultMachineState), so it counts an
	// almost endless amount of memory.
	DefectMemoryUnderflow

	// BadRequest: the engine cannot evaluate the request. An amount is negative or too large, the
	// pod has more than MaxContainers containers, or its Rules are not valid.
	BadRequest
	// TooWide: there is room, but only on more NUMA nodes than the policy allows. TooWide and most
	// of the following Details are rules of Berth, for nodes on which Berth decides.
	TooWide
	// OddCPUs: the pod asks for full cores, and its CPUs are not a whole number of cores.
	OddCPUs
	// UnequalCores: the pod's rules need cores with equal numbers of threads, which the machine
	// does not have.
	UnequalCores
	// NoSuchCores: enough CPUs are free, but not on the cores, caches or NUMA nodes that the pod
	// requires.
	NoSuchCores
	// Withholds: the pod wants exclusive cores or NUMA nodes, but does not ask for all of their
	// CPUs.
	Withholds
	// NotExactly: the pod wants an exact number of NUMA nodes, and no set of that many NUMA nodes
	// has room.
	NotExactly
	// DevicesUneven: the requested number of devices cannot be divided into the wanted number per
	// NUMA node.
	DevicesUneven
	// NoCPUs: too few CPUs are free.
	NoCPUs
	// NoRoom: too little CPU time or memory is free.
	NoRoom
	// PodLevelUndecided: the pod has spec.resources, which Berth cannot place.
	PodLevelUndecided
	// DevicesUndecided: another program assigns the devices, but the pod's policy or Rules.Devices
	// require that Berth places them.
	DevicesUndecided
	// DevicesNowhere: the pod wants a number of devices per NUMA node, and the device plugin does
	// not report exactly one NUMA node for each device. Only with Config.GuardDefects, because no
	// kubelet refuses for this reason.
	DevicesNowhere
	// DevicesOpen: the pod wants a number of devices per NUMA node, and the kubelet could assign a
	// different number. Only with Config.GuardDefects.
	DevicesOpen
	// NoDevices: too few devices are free.
	NoDevices
	// NotTogether: enough devices are free, but not at the common PCI places that the pod requires.
	NotTogether
	// DevicesApart: the pod asks for a device type that is not in DeviceRules.Joint.
	DevicesApart
	// DevicesNotAll: the pod wants one device of each physical function (DeviceRules.All), but its
	// number of devices is not the number of physical functions.
	DevicesNotAll

	// NotProvided: too little of a provider's resource is left.
	NotProvided
	// ProvidedApart: enough of the provider's resource is left, but not on the NUMA nodes with room
	// for the other resources.
	ProvidedApart
	// ProviderWrong: a provider allocated more than it has, or not exactly the requested amount.
	ProviderWrong
	// ProviderElsewhere: a provider assigns the resource, but on this node the kubelet decides.
	ProviderElsewhere

	// KeptForDevices: too few CPUs are left that are not kept for devices (Keep), and the pod asks
	// for none of these devices.
	KeptForDevices

	// PolicyUnsupported: the node cannot apply the requested policy, because a kubelet with that
	// policy would not start there.
	PolicyUnsupported

	details // the number of values
)

type rule struct {
	reason             Reason
	name, text, advice string
}

// rules has, for each Detail, its text in Berth's messages, its Reason, and advice for the user.
var rules = [details]rule{
	NoDetail: {Admitted, "None", "admitted", ""},
	NotPreferred: {TopologyAffinityError, "NotPreferred", "no set of NUMA nodes is preferred by all resources",
		"free resources that are on the same NUMA nodes, or ask for less, so that the pod fits on fewer NUMA nodes" + milderNodes},

	NotWholeCores: {SMTAlignmentError, "NotWholeCores", "full-pcpus-only: the CPUs are not a whole number of cores",
		"ask for a whole number of cores: on most machines an even number of CPUs"},
	TooFewWholeCores: {SMTAlignmentError, "TooFewWholeCores", "full-pcpus-only: too few CPUs are free on cores without reserved CPUs",
		"ask for fewer CPUs, or wait until whole cores are free: berth node NAME shows them"},

	TooFewCPUs: {UnexpectedAdmissionError, "TooFewCPUs", "too few CPUs are free",
		"ask for fewer CPUs, or wait until other pods end: berth nodes shows what is free"},
	CPUsNotFound: {UnexpectedAdmissionError, "CPUsNotFound", "enough CPUs are free, but no combination of them fits the request",
		"ask for another number of CPUs, one that fits cores and NUMA nodes"},
	CPUAccounting: {UnexpectedAdmissionError, "CPUAccounting", "distribute-cpus-across-numa miscounts the CPUs",
		"ask for a number of CPUs that divides evenly by the NUMA nodes, or switch distribute-cpus-across-numa off"},

	NoDefaultMemory: {UnexpectedAdmissionError, "NoDefaultMemory", "no set of NUMA nodes has enough free memory",
		"ask for less memory, or wait until other pods end: berth nodes -o wide shows what each NUMA node has"},
	DefaultMemoryNotPreferred: {UnexpectedAdmissionError, "DefaultMemoryNotPreferred", "only more NUMA nodes than preferred have enough free memory",
		"ask for less memory, so that it fits on fewer NUMA nodes" + milderNodes},
	NoMemoryExtension: {UnexpectedAdmissionError, "NoMemoryExtension", "the chosen NUMA nodes have too little free memory and no larger set has enough",
		"ask for less memory, or fewer CPUs, so that both fit on the same NUMA nodes"},
	MemoryExtensionNotPreferred: {UnexpectedAdmissionError, "MemoryExtensionNotPreferred", "the chosen NUMA nodes have too little free memory and no preferred set has enough",
		"ask for less memory, or fewer CPUs, so that both fit on the same NUMA nodes" + milderNodes},
	MemoryGroup: {UnexpectedAdmissionError, "MemoryGroup", "one of the chosen NUMA nodes already provides memory in another group of NUMA nodes",
		"change nothing on this pod: the pods whose memory is on several NUMA nodes must end first"},
	MemoryNotInteger: {UnexpectedAdmissionError, "MemoryNotInteger", "the amount of memory is not a whole number of bytes",
		"write the amount in whole bytes: 1Gi, not 1500m"},
	NoMemoryAsked: {UnexpectedAdmissionError, "NoMemoryAsked", "kubelets up to 1.36 refuse a container without memory of its own here (PodLevelResourceManagers)",
		"give each container equal requests and limits of CPU and memory, or use nodes with kubelet 1.37"},
	NoneToShare: {TopologyAffinityError, "NoneToShare", "containers with exclusive CPUs or memory leave none of spec.resources to the containers that share",
		"ask for more in spec.resources, or for less in the containers whose requests equal their limits"},
	EmptySharedPool: {EmptyPodSharedPoolError, "EmptySharedPool", "containers with exclusive CPUs or memory leave none of spec.resources to the other containers",
		"ask for more in spec.resources, or for less in the containers whose requests equal their limits"},

	DeviceUnregistered: {UnexpectedAdmissionError, "DeviceUnregistered", "no plugin has registered the resource",
		"look at the device plugin on the node: it does not run, or has not registered yet"},
	NoHealthyDevice: {UnexpectedAdmissionError, "NoHealthyDevice", "no device is healthy",
		"look at the device plugin's log on the node: it reports all its devices as unhealthy"},
	HeldDeviceUnhealthy: {UnexpectedAdmissionError, "HeldDeviceUnhealthy", "a device that the container holds is no longer healthy",
		"delete the pod, so that it gets another device; or wait until the device is healthy again"},
	TooFewDevices: {UnexpectedAdmissionError, "TooFewDevices", "too few devices are free",
		"ask for fewer devices, or wait until other pods end"},
	DeviceRequestChanged: {UnexpectedAdmissionError, "DeviceRequestChanged", "the container does not hold the number of devices that it asks for",
		"delete the pod, so that its controller creates one with the current request"},

	PodLevelOff: {PodLevelResourcesNotSupported, "PodLevelOff", "the kubelet's feature gate PodLevelResources is off, and the pod has spec.resources",
		"switch the gate on at the kubelet, or write the resources at the containers"},

	DefectHang: {KubeletDefect, "DefectHang", "the kubelet would hang: distribute-cpus-across-numa cannot place the rest (kubernetes#140730)",
		"ask for a number of CPUs that divides evenly by the NUMA nodes, or use nodes without distribute-cpus-across-numa"},
	DefectTooComplex: {KubeletDefect, "DefectTooComplex", "the kubelet would take too long: distribute-cpus-across-numa has too many combinations",
		"ask for fewer CPUs, or use nodes without distribute-cpus-across-numa"},
	DefectSlowMerge: {KubeletDefect, "DefectSlowMerge", "the kubelet would take minutes to combine the hints of so many resources over so many NUMA nodes",
		"ask for fewer kinds of devices in one pod, or use nodes with fewer NUMA nodes"},
	DefectForeignCPUs: {KubeletDefect, "DefectForeignCPUs", "the kubelet would assign CPUs that are not free (kubernetes#140495)",
		"use nodes whose cores have equally many threads, or ask for another number of CPUs"},
	DefectNoSharedCPU: {KubeletDefect, "DefectNoSharedCPU", "no shared CPU would be left and the kubelet could not restart (kubernetes#141196)",
		"ask for fewer CPUs: one has to be left for pods that share"},
	DefectRestartKills: {KubeletDefect, "DefectRestartKills", "a restart of the kubelet would kill a container: full-pcpus-only would need as many free whole cores as the container has",
		"ask for fewer CPUs, or upgrade the node's kubelet to 1.37, whose restarts kill no pod"},
	DefectRestartRepeats: {KubeletDefect, "DefectRestartRepeats", "a restarted kubelet would place the pod once more, and refuse it or lose its CPUs (kubernetes#140989, #140906)",
		"use nodes with topologyManagerScope container, or without the feature gate PodLevelResourceManagers"},
	DefectLateDevices: {KubeletDefect, "DefectLateDevices", "the kubelet would choose the pod's devices only when its containers start (PodLevelResourceManagers, scope pod), so they could be on any NUMA nodes",
		"leave spec.resources out, or use nodes with topologyManagerScope container or without that feature gate"},
	DefectMixedGroups: {KubeletDefect, "DefectMixedGroups", "a NUMA node's memory would be in two groups and the kubelet could not restart",
		"ask for memory that fits on one NUMA node"},
	DefectUnequalGroup: {KubeletDefect, "DefectUnequalGroup", "memory of NUMA nodes with different kinds of huge pages would be grouped and the kubelet would crash when it restarts",
		"ask for memory that fits on one NUMA node, or give all NUMA nodes the same kinds of huge pages"},
	DefectMissingMemoryKind: {KubeletDefect, "DefectMissingMemoryKind", "the kubelet would crash: not every NUMA node has this kind of memory",
		"give every NUMA node huge pages of that size, or ask for another size"},
	DefectNoRegularMemory: {KubeletDefect, "DefectNoRegularMemory", "the kubelet would crash: huge pages are asked for without ordinary memory",
		"ask for ordinary memory, too"},
	DefectVanishedDevice: {KubeletDefect, "DefectVanishedDevice", "the kubelet would crash: a device that the pod holds is no longer listed",
		"delete the pod that holds the device when that pod may end; then look at the device plugin"},
	DefectWideDevices: {KubeletDefect, "DefectWideDevices", "the kubelet would try all sets of too many NUMA nodes to place devices, or the devices are on other NUMA nodes than Berth expects",
		"use nodes without such devices; if the kubelet is older than 1.36, update it"},
	DefectMemoryUnderflow: {KubeletDefect, "DefectMemoryUnderflow", "reservedMemory or huge pages exceed the memory of a NUMA node, and the kubelet treats this memory as endless",
		"lower reservedMemory or the huge pages of the NUMA node, and restart the kubelet"},

	BadRequest: {InvalidRequest, "BadRequest", "an amount in the request is negative or too large, or the pod has more than 256 containers",
		"correct the pod's requests, or the number of its containers"},

	TooWide: {NoBerth, "TooWide", "there is room only on more NUMA nodes than the policy allows",
		"free resources that are on the same NUMA nodes, or ask for less, so that the pod fits on fewer NUMA nodes; or write berth.dev/policy: best-effort"},
	OddCPUs: {NoBerth, "OddCPUs", "full cores are asked for, and the CPUs are not a whole number of cores",
		"ask for a whole number of cores: on most machines an even number of CPUs"},
	UnequalCores: {NoBerth, "UnequalCores", "the pod's wishes need cores with equally many threads, and the node's cores differ",
		"leave the wish out, or use nodes whose cores have equally many threads"},
	NoSuchCores: {NoBerth, "NoSuchCores", "enough CPUs are free, but not on the cores, caches and NUMA nodes that the pod requires",
		"leave out a wish for the CPUs, such as berth.dev/cpus, or wait until other pods end"},
	Withholds: {NoBerth, "Withholds", "berth.dev/exclusive would keep CPUs idle that the pod does not ask for: it must ask for all CPUs of its cores or NUMA nodes",
		"ask for all of those CPUs, add \",preferred\" to the annotation, or let the administrator name the namespace in exclusiveNamespaces"},
	NotExactly: {NoBerth, "NotExactly", "there is no room on exactly as many NUMA nodes as berth.dev/numa-nodes, or the devices per NUMA node, require",
		"ask for another number of NUMA nodes, or for at least one CPU on each; or wait until other pods end"},
	DevicesUneven: {InvalidRequest, "DevicesUneven", "the numbers of devices are not multiples of the number per NUMA node that berth.dev/devices requires, or do not match berth.dev/numa-nodes",
		"ask for the same number of devices of each resource: the number per NUMA node, times the number of NUMA nodes"},
	NoCPUs: {NoBerth, "NoCPUs", "too few CPUs are left",
		"ask for fewer CPUs, or wait until other pods end"},
	NoRoom: {NoBerth, "NoRoom", "too little CPU time or memory is left",
		"ask for less, or wait until other pods end"},
	PodLevelUndecided: {InvalidRequest, "PodLevelUndecided", "pod-level resources are not placed on nodes with authority berth yet",
		"write the resources at the containers, or use nodes where the kubelet decides"},
	DevicesUndecided: {InvalidRequest, "DevicesUndecided", "the pod has wishes for its devices, and a plugin other than Berth's offers them",
		"let Berth's plugin offer the devices, use nodes where the kubelet decides, or leave the wish out"},
	DevicesNowhere: {NoBerth, "DevicesNowhere", "berth.dev/devices requires a number of devices on each NUMA node, and the device plugin does not report one NUMA node for each device",
		"use nodes whose device plugin reports it, or nodes with authority berth, or leave the wish out"},
	DevicesOpen: {NoBerth, "DevicesOpen", "berth.dev/devices requires a number of devices on each NUMA node, and the kubelet may take other numbers, given its policy and its devices",
		"use nodes with single-numa-node, or with no more devices on a NUMA node than the pod wants there, or nodes with authority berth"},
	NoDevices: {NoBerth, "NoDevices", "too few devices are left",
		"ask for fewer devices, or wait until other pods end"},
	NotTogether: {NoBerth, "NotTogether", "enough devices are free, but not at the same PCI switch or root complex, as the pod requires",
		"leave berth.dev/devices out or only prefer it, or wait until other pods end"},
	DevicesApart: {InvalidRequest, "DevicesApart", "the pod asks for devices of a type that device-joint-allocate does not name",
		"name every type of device that the pod asks for in device-joint-allocate, or none"},
	DevicesNotAll: {InvalidRequest, "DevicesNotAll", "the pod wants one device of each card, but does not ask for as many devices as the node has cards",
		"ask for as many devices as the nodes have cards, or leave ApplyForAll out"},

	NotProvided: {NoBerth, "NotProvided", "too little is left of a provider's resource",
		"ask for less of it, or wait until other pods end"},
	ProvidedApart: {NoBerth, "ProvidedApart", "the NUMA nodes with room have too little of a provider's resource",
		"ask for less, or wait until other pods end; or write berth.dev/policy: best-effort"},
	ProviderWrong: {NoBerth, "ProviderWrong", "a provider assigned more than it has, or less than requested",
		"change nothing on this pod: the provider in this scheduler's build is wrong"},
	ProviderElsewhere: {NoBerth, "ProviderElsewhere", "a provider of this scheduler assigns the resource, but only on nodes where Berth decides",
		"use nodes with authority berth"},

	KeptForDevices: {NoBerth, "KeptForDevices", "the CPUs are kept for pods that ask for the devices near them (keep: cpusNearDevices)",
		"use nodes without such devices, or wait until other pods without such devices end; or let the administrator lower cpusPerDevice"},

	PolicyUnsupported: {InvalidRequest, "PolicyUnsupported", "the node cannot apply the requested policy",
		"ask for a policy that the node can apply, or use other nodes"},
}

func (d Detail) rule() *rule {
	if d >= details {
		return &rule{InvalidRequest, "Detail(?)", "unknown", ""}
	}
	return &rules[d]
}

// Reason returns the reason to which the detail belongs.
func (d Detail) Reason() Reason { return d.rule().reason }

// String returns the detail's name, such as "NotPreferred".
func (d Detail) String() string { return d.rule().name }

// Text describes the detail as a clause.
func (d Detail) Text() string { return d.rule().text }

// Advice returns advice for the user, in the imperative, or "" if nothing helps.
func (d Detail) Advice() string { return d.rule().advice }

// MarshalText implements encoding.TextMarshaler with the name.
func (d Detail) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalText implements encoding.TextMarshaler with the name of the reason.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
