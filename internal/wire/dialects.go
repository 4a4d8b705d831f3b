package wire

import (
	"slices"
	"strings"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// Dialect has the annotations and labels of another project. It lists the keys that Berth reads,
// and other keys with the reason why they have no effect.
type Dialect struct {
	// Name is the name of the project.
	Name string
	// Scheduler is the name of the project's own scheduler in spec.schedulerName. This scheduler
	// reads the annotations of its pods, so Berth does not warn about these annotations unless
	// Berth serves the name.
	Scheduler string
	// Domains are the domains of the project's keys. Subdomains are included.
	Domains []string
	// Spoken are the annotations that Berth reads. SpokenLabels are the labels that Berth reads.
	Spoken, SpokenLabels []string
	// Records are keys that controllers set on pods to record facts about them. These keys request
	// nothing.
	Records []string
	// Above are keys that the project's own controllers read on a workload, but not on its pods.
	Above []string
	// Words are keys with which users request something, but which have no effect in Berth. Some of
	// these keys have no domain.
	Words []Unserved
}

// Unserved has annotations and labels without effect, with the reason.
type Unserved struct {
	Why  string
	Keys []string
}

// The reasons why a key has no effect.
const (
	// UnknownWord is the reason for keys that are in a dialect's domains, but that Berth does not
	// know.
	UnknownWord     = "Berth has no such annotation or label"
	anAnnotation    = "it is an annotation, not a label"
	aLabel          = "it is a label, not an annotation"
	noQueues        = "Berth has no queues and quotas: use Kueue above it"
	noNetwork       = "Berth does not look at the network: use Kueue's topology-aware scheduling"
	noFractions     = "Berth hands out whole devices: ask for them in resources.limits"
	noClusters      = "Berth does not send jobs to other clusters"
	noEvictionWords = `Berth evicts by priority: volcano.sh/preemptable: "false" keeps a pod`
	ofNodesOnly     = "it belongs on Nodes"
	aGang           = "a gang is declared by a PodGroup, or by " + GangAnnotation
)

// onNodes returns the reason for keys that a program of the project reads on the node.
func onNodes(program string) string { return program + " reads it on the node, if it runs there" }

// dialects has the dialects of the other projects. Run make generate after a change.
var dialects = []Dialect{
	{
		Name: "Volcano", Scheduler: "volcano", Domains: []string{"volcano.sh"},
		Spoken:       []string{volcano.GroupNameAnnotation, volcano.VolcanoGroupNameAnnotation, volcano.TaskSpecAnnotation, VolcanoPolicyAnnotation, PreemptableKey},
		SpokenLabels: []string{PreemptableKey, volcano.TaskSpecAnnotation},
		Records: []string{
			volcano.TaskSpecAnnotation, "volcano.sh/task-index", "volcano.sh/job-name", "volcano.sh/job-namespace", "volcano.sh/queue-name", "volcano.sh/job-version",
			"volcano.sh/job-retry-count", "volcano.sh/template-uid", "volcano.sh/partition-id", "volcano.sh/job-type", "volcano.sh/createdByJobTemplate",
			"volcano.sh/createdByJobFlow", "volcano.sh/cronjob-scheduled-timestamp",
		},
		Above: []string{"scheduling.volcano.sh/group-min-member", "scheduling.volcano.sh/group-min-resources"},
		Words: []Unserved{
			{aGang, []string{"scheduling.volcano.sh/group-min-member", "scheduling.volcano.sh/group-min-resources"}},
			{noQueues, []string{"scheduling.volcano.sh/queue-name", "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"}},
			{"if Volcano's webhook adds this scheduling gate to the pod, Berth does not remove it", []string{"scheduling.volcano.sh/queue-allocation-gate"}},
			{"Berth does not protect pods from eviction for a time: volcano.sh/preemptable: \"false\" keeps it for good", []string{"volcano.sh/cooldown-time"}},
			{"Berth does not support nodes that are lent for a time", []string{"volcano.sh/revocable-zone"}},
			{"did you mean " + PreemptableKey + "?", []string{"volcano.sh/preemptible"}},
			{"did you mean " + VolcanoPolicyAnnotation + "?", []string{"volcano.sh/topology-policy", "volcano.sh/numa-topology"}},
			{"use a PodDisruptionBudget", []string{"volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"}},
			{"waiting does not raise a pod's priority: use a PriorityClass", []string{"volcano.sh/sla-waiting-time", "sla-waiting-time"}},
			{"use podAffinity, or " + SameNUMAAnnotation, []string{
				"volcano.sh/task-topology", "volcano.sh/task-topology-affinity", "volcano.sh/task-topology-anti-affinity", "volcano.sh/task-topology-task-order",
			}},
			{"use a PriorityClass", []string{
				"volcano.sh/task-priority", "volcano.sh/scheduling-priority", "volcano.sh/scheduling-priority-reason", "volcano.sh/scheduling-priority-timestamp",
			}},
			{"Berth decides itself where CPUs and memory are", []string{"volcano.sh/topology-decision"}},
			{noFractions, []string{
				"volcano.sh/vgpu-mode", "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid", "volcano.sh/vgpu-podgroup-policy", "volcano.sh/vgpu-node",
				"volcano.sh/vgpu-time", "volcano.sh/vgpu-ids", "volcano.sh/vgpu-ids-new", "volcano.sh/gpu-index", "volcano.sh/devices-to-allocate",
				"volcano.sh/bind-phase", "volcano.sh/bind-time", "volcano.sh/predicate-time",
			}},
			{noNetwork, []string{
				"volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier", "volcano.sh/network-topology-source", "volcano.sh/job-allocated-hypernode",
			}},
			{"the scheduler's argument scoring orders nodes", []string{"volcano.sh/resource-strategy-weight", "volcano.sh/resource-strategy-scoring-type"}},
			{onNodes("Volcano's own agent"), []string{
				"volcano.sh/qos-level", "volcano.sh/network-bandwidth-rate", "volcano.sh/enable-quota-burst", "volcano.sh/quota-burst-time",
			}},
			{"Volcano's own webhook reads it, if it is installed", []string{"volcano.sh/resource-group"}},
			{noClusters, []string{"volcano.sh/job-forwarding", "volcano.sh/forward-cluster", "volcano.sh/silo-resource", "volcano.sh/burst-name"}},
			{ofNodesOnly, []string{"volcano.sh/nodegroup-name", "volcano.sh/colocation", "volcano.sh/oversubscription", "volcano.sh/oversubscription-types"}},
		},
	},
	{
		Name: "Koordinator", Scheduler: koordScheduler, Domains: []string{"koordinator.sh", sigs.OldPodGroupLabel},
		Spoken: slices.Concat(koordinatorSpoken, koordinatorGangKeys,
			[]string{KoordinatorStatusAnnotation, KoordinatorDevicesAnnotation, AllocatedAnnotation, ReservationAffinityAnnotation}),
		SpokenLabels: []string{koordinatorQoS, sigs.OldPodGroupLabel},
		Records:      []string{"scheduling.koordinator.sh/bind-timestamp", "scheduling.koordinator.sh/gpu-minors"},
		Words: []Unserved{
			{noQueues, []string{
				"quota.scheduling.koordinator.sh/name", "quota.scheduling.koordinator.sh/tree-id", "quota.scheduling.koordinator.sh/parent",
				"quota.scheduling.koordinator.sh/is-parent", "quota.scheduling.koordinator.sh/profile", "quota.scheduling.koordinator.sh/ignore-default-tree",
			}},
			{noEvictionWords, []string{
				"quota.scheduling.koordinator.sh/preemptible", "scheduling.koordinator.sh/disable-preemptible", "scheduling.koordinator.sh/preemption-policy",
			}},
			{"use a PriorityClass", []string{"koordinator.sh/priority", "koordinator.sh/priority-class"}},
			{aGang, []string{
				sigs.OldPodGroupLabel + "/name", sigs.OldPodGroupLabel + "/min-available", "scheduling.koordinator.sh/bind-gang-group-id",
				"scheduling.koordinator.sh/bind-gang-member-count",
			}},
			{"Koordinator's own descheduler reads it, if it runs", []string{
				"koordinator.sh/eviction-enabled", "koordinator.sh/eviction-policy", "koordinator.sh/eviction-priority", "scheduling.koordinator.sh/eviction-cost",
				"scheduling.koordinator.sh/soft-eviction",
			}},
			{onNodes("koordlet"), []string{
				"koordinator.sh/networkQOS", "koordinator.sh/memoryQOS", "koordinator.sh/blkioQOS", "koordinator.sh/cpuBurst", "koordinator.sh/oom-score-adj",
				"koordinator.sh/oom-score-adj-spec", "node.koordinator.sh/resctrl", "node.koordinator.sh/extended-resource-spec",
			}},
			{noFractions, []string{"scheduling.koordinator.sh/gpu-partition-spec", "koordinator.sh/gpu-isolation-provider"}},
			{noNetwork, []string{"scheduling.koordinator.sh/network-topology-selector"}},
			{"Berth does not look at load", []string{
				"scheduling.koordinator.sh/usage-thresholds", "scheduling.koordinator.sh/load-estimated-scaling-factors",
				"scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled", "scheduling.koordinator.sh/load-estimated-seconds-after-initialized",
			}},
			{"Berth does not support this part of Reservations", []string{
				"scheduling.koordinator.sh/reservation-ignored", "scheduling.koordinator.sh/reservation-order", "scheduling.koordinator.sh/pre-allocation-required",
				"scheduling.koordinator.sh/exact-match-reservation", "scheduling.koordinator.sh/reservation-restricted-options", "scheduling.koordinator.sh/operating-mode",
				"scheduling.koordinator.sh/reservation-owners", "pod.koordinator.sh/is-pre-allocatable", "pod.koordinator.sh/pre-allocatable-priority",
			}},
			{ofNodesOnly, []string{
				koordinatorPolicy, koordinatorBind, koordinatorFill, koordinatorMemory, "node.koordinator.sh/gpu-partition-policy", "node.koordinator.sh/reservation",
				"node.koordinator.sh/resource-amplification-ratio", "node.koordinator.sh/colocation-strategy", "node.koordinator.sh/system-qos-resource",
			}},
		},
	},
	{
		Name: "Coscheduling", Scheduler: "scheduler-plugins-scheduler", Domains: []string{sigs.GroupVersion.Group}, SpokenLabels: []string{sigs.PodGroupLabel},
	},
	{
		Name: "KAI", Scheduler: "kai-scheduler", Domains: []string{"kai.scheduler", "run.ai", "runai"},
		Records: []string{
			"kai.scheduler/last-start-timestamp", "kai.scheduler/stale-podgroup-timestamp", "kai.scheduler/top-owner-metadata", "kai.scheduler/numa-placement-observed",
			"kai.scheduler/numa-placement-predicted",
		},
		Words: []Unserved{
			{noFractions, []string{"gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name", "runai-gpu-group", "runai/shared-gpu-configmap"}},
			{noQueues, []string{"kai.scheduler/queue", "runai/queue", "kai.scheduler/accounting"}},
			{aGang, []string{"pod-group-name", "kai.scheduler/subgroup-name"}},
			{noEvictionWords, []string{"kai.scheduler/preemptibility"}},
			{"use a PriorityClass", []string{"kai.scheduler/task-priority"}},
			{"set spec.priorityClassName of the pod", []string{"priorityClassName"}},
			{"use a nodeSelector", []string{"kai.scheduler/node-pool"}},
			{noNetwork, []string{
				"kai.scheduler/topology", "kai.scheduler/topology-required-placement", "kai.scheduler/topology-preferred-placement", "kai.scheduler/segment-size",
				"kai.scheduler/segment-topology-required-placement", "kai.scheduler/segment-topology-preferred-placement",
			}},
		},
	},
	{
		Name: "YuniKorn", Scheduler: "yunikorn", Domains: []string{"yunikorn.apache.org"},
		Words: []Unserved{
			{aGang, []string{"yunikorn.apache.org/task-group-name", "yunikorn.apache.org/task-groups", "yunikorn.apache.org/schedulingPolicyParameters"}},
			{noQueues, []string{"yunikorn.apache.org/app-id", "yunikorn.apache.org/queue", "yunikorn.apache.org/parentqueue"}},
			{noEvictionWords, []string{"yunikorn.apache.org/allow-preemption"}},
		},
	},
	{
		Name: "Slinky", Scheduler: "slurm-bridge-scheduler", Domains: []string{"slurmjob.slinky.slurm.net"},
	},
	{
		Name: "Katalyst", Scheduler: "katalyst-scheduler", Domains: []string{"katalyst.kubewharf.io"},
		Records: []string{
			"katalyst.kubewharf.io/numa_bind_result", "katalyst.kubewharf.io/nic_selection_result", "katalyst.kubewharf.io/gpu_selection_result",
			"katalyst.kubewharf.io/sriov_vf_result", "katalyst.kubewharf.io/net_class_id",
		},
		Words: []Unserved{
			{"whole CPUs with limits equal to requests are exclusive, and " + CPUsAnnotation + " selects cores", []string{
				"katalyst.kubewharf.io/qos_level", "katalyst.kubewharf.io/cpu_enhancement",
			}},
			{PolicyAnnotation + ": single-numa-node and " + ExclusiveAnnotation + ": numa do this", []string{"katalyst.kubewharf.io/memory_enhancement"}},
			{NUMANodesAnnotation + " sets the number of NUMA nodes", []string{"katalyst.kubewharf.io/numa_number", "katalyst.kubewharf.io/numa_ids"}},
			{onNodes("Katalyst's own agent"), []string{
				"katalyst.kubewharf.io/network_enhancement", "katalyst.kubewharf.io/resource_pool", "katalyst.kubewharf.io/resource_package",
				"katalyst.kubewharf.io/pod_soft_evict_notify", "katalyst.kubewharf.io/pod_evict_score", "katalyst.kubewharf.io/cpu_weight_demand_cores",
				"katalyst.kubewharf.io/cpu_weight_burst_ratio", "spd.katalyst.kubewharf.io/name", "spd.katalyst.kubewharf.io/enable",
				"vpa.katalyst.kubewharf.io/enable", "vpa.katalyst.kubewharf.io/name",
			}},
		},
	},
}

// Dialects returns the known dialects.
func Dialects() []Dialect { return slices.Clone(dialects) }

// OfDialect reports whether the key belongs to a known dialect.
func OfDialect(key string) bool {
	return slices.ContainsFunc(dialects, func(d Dialect) bool { return d.inDomain(key) || d.word(key) != "" })
}

// Why explains why the key has no effect as an annotation or a label of a pod. It returns "" if the
// key has an effect, if it requests nothing, or if it does not belong to the dialect.
func (d *Dialect) Why(key string, label bool) string {
	why := d.word(key)
	if why == "" && !d.inDomain(key) && !slices.Contains(d.Spoken, key) && !slices.Contains(d.SpokenLabels, key) {
		return ""
	}
	spoken, elsewhere, place := d.Spoken, d.SpokenLabels, aLabel
	if label {
		spoken, elsewhere, place = d.SpokenLabels, d.Spoken, anAnnotation
	}
	switch {
	case slices.Contains(spoken, key) || slices.Contains(d.Records, key):
		return ""
	case slices.Contains(elsewhere, key):
		return place
	case why == "":
		return UnknownWord
	}
	return why
}

// word returns the reason why the key has no effect if the key is one of the Words, and otherwise
// "".
func (d *Dialect) word(key string) string {
	if !d.inDomain(key) && strings.Contains(key, "/") {
		return ""
	}
	for i := range d.Words {
		if slices.Contains(d.Words[i].Keys, key) {
			return d.Words[i].Why
		}
	}
	return ""
}

// inDomain reports whether the key is in one of the Domains or their subdomains.
func (d *Dialect) inDomain(key string) bool {
	domain, _, slash := strings.Cut(key, "/")
	return slash && slices.ContainsFunc(d.Domains, func(of string) bool {
		rest, below := strings.CutSuffix(domain, of)
		return below && (rest == "" || strings.HasSuffix(rest, "."))
	})
}
