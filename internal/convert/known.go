package convert

import (
	"maps"
	"slices"
	"strings"
)

// The texts that several plugins or actions share.
const (
	servedByKube = "kube-scheduler's own plugins do the same"
	useKueue     = "Berth has no queues: use Kueue above it"
	notScheduler = "not a task of a scheduler"

	reservesNodes = "it locked nodes for one waiting job; in Berth, gangs that do not fit take turns, and the gang that has waited longest is tried first"
	keepsNearGPUs = "it limits pods without GPUs on nodes with GPUs; use keep: cpusNearDevices with cpusPerDevice"
)

// actions maps each action of Volcano to a text about its counterpart in Berth. "" means that no
// text is needed.
var actions = map[string]string{
	"enqueue":     "", // the converter's gate handles it
	"allocate":    "",
	"backfill":    "pods without requests are placed like others; there is no action to switch on",
	"preempt":     "preemption is by priority, for whole gangs, and also across queues; a pod that must not evict has preemptionPolicy: Never",
	"reclaim":     "no pods are evicted for the share of a queue: " + useKueue,
	"shuffle":     "use a descheduler; Berth moves pods only when you run berth defrag --execute",
	"gangpreempt": "preemption for a gang evicts only when the whole gang then fits, and also pods of other queues; there is no action to switch on",
	"gangreclaim": useKueue,
	"elect":       reservesNodes,
	"reserve":     reservesNodes,
}

// evicting are the actions that evict pods of lower priority. Volcano runs such an action only if
// the configuration names it.
var evicting = []string{"preempt", "gangpreempt"}

// plugins maps each plugin of Volcano to a text about its counterpart. "" means that Berth replaces
// the plugin completely.
var plugins = map[string]string{
	"priority":               "",
	"gang":                   "",
	"numa-aware":             "",
	"predicates":             "",
	"nodeorder":              "",
	"binpack":                "",
	"conformance":            "preemption evicts only by priority: give critical pods the PriorityClass system-cluster-critical",
	"overcommit":             "",
	"drf":                    useKueue + " (fair sharing)",
	"proportion":             useKueue,
	"capacity":               useKueue,
	"resourcequota":          "the API server's ResourceQuota counts pods when they are created",
	"sla":                    "Berth has no maximum waiting time: use priorities",
	"tdm":                    "no time divisions of nodes: use taints and tolerations",
	"rescheduling":           "use a descheduler; Berth moves pods only when you run berth defrag --execute",
	"usage":                  "Berth ignores the load of nodes: use requests",
	"task-topology":          "use podAffinity and podAntiAffinity in the task's template",
	"deviceshare":            "parts of a GPU are out of scope: whole devices are placed with their CPUs",
	"nodegroup":              "use nodeAffinity, or a taint for each group",
	"pdb":                    "preemption respects PodDisruptionBudgets; there is no plugin to switch on",
	"network-topology-aware": "distances between nodes are out of scope: use Kueue's topology-aware scheduling",
	"extender":               "list it below extenders of the KubeSchedulerConfiguration, and rewrite its server: kube-scheduler sends it other requests than Volcano (ExtenderArgs)",
	"cdp":                    "there is no cool-down: use a PodDisruptionBudget",
	"resource-strategy-fit":  "use scoringStrategy of NodeResourcesFit, which has one type for all resources",
	"crossquota":             keepsNearGPUs,
	"cpuquota":               keepsNearGPUs,
	"reservation":            reservesNodes,

	// The plugins of two products that are built on Volcano: Huawei's CCE and Open Telekom Cloud's
	// CCE.
	"cce-gpu-topology-predicate": "it excluded nodes whose GPUs or NPUs are not connected as the pod asks; Berth places devices by NUMA node, under the policy of the node",
	"cce-gpu-topology-priority":  "it preferred nodes with well connected GPUs or NPUs; Berth prefers nodes on which devices keep their CPUs, and there is no plugin to switch on",
	"cce-gpu":                    "it divided GPUs; " + wholeDevices,
	"xgpu":                       "it divided GPUs by memory and computing power; " + wholeDevices,
	"gpushare":                   "it divided GPUs; " + wholeDevices,
	"nodelocalvolume":            "it left out nodes without the local volume; " + servedByKube + " (VolumeBinding)",
	"nodeemptydirvolume":         "it left out nodes without room for an emptyDir; ask for ephemeral-storage in the pod's requests",
	"nodeCSIscheduling":          "it left out nodes without the CSI driver; " + servedByKube + " (NodeVolumeLimits)",
	"networkresource":            "it counted network interfaces; kube-scheduler counts them if pods ask for them as extended resources",
	"oversubscription":           "it placed pods by oversold CPUs and memory, which are out of scope: use requests",
	"lifecycle":                  "it placed pods together that end at a similar time; Berth does not know when pods end",
	"volcano-npu":                ascend,
}

const (
	wholeDevices = "in Berth, GPUs are extended resources that are placed whole with their CPUs; parts of a GPU are out of scope"
	ascend       = "Ascend's plugin placed NPUs by their links, and recreated pods of a failed NPU; Berth places NPUs as extended resources (huawei.com/Ascend910), " +
		"whole and with their CPUs, and ignores links between NPUs or nodes"
)

// families has, by prefix, texts for all plugins whose names begin with the prefix.
var families = []struct{ prefix, why string }{
	{"volcano-npu", ascend}, // volcano-npu_v6.0.RC1_linux-aarch64
	{"ascend", ascend},
	{"npu", ascend},
	{"huawei-npu", ascend},
	{"cce-gpu", "a plugin of CCE's for GPUs; " + wholeDevices},
}

// inFamily returns the text for a plugin that belongs to a family.
func inFamily(name string) (string, bool) {
	for _, f := range families {
		if strings.HasPrefix(name, f.prefix) {
			return f.why, true
		}
	}
	return "", false
}

// configurations has the texts for the entries of the key configurations, by name.
var configurations = map[string]string{
	"init-params": "settings of Ascend's plugin",
	"selector":    "labels of nodes that Ascend's plugin offers: use the pod's node affinity",
}

// ownParameters has the texts for parameters that exist only in a product's add-on. Input with such
// a parameter therefore comes from an add-on.
var ownParameters = map[string]string{
	"resource_exporter_enable": "berth-agent reports what the exporter did, and more; nodes with only the exporter get the guarantee amounts",
	"plugins.eas_service":      notScheduler + ": it asks a service to create nodes",
	"ca_cert":                  notScheduler,
	"server_cert":              notScheduler,
	"server_key":               notScheduler,
	"colocation_enable":        "oversold CPUs and memory are out of scope",
	"oversubscription_ratio":   "oversold CPUs and memory are out of scope",
	"oversubscription_method":  "oversold CPUs and memory are out of scope",
	"descheduler_enable":       useDescheduler,
	"deschedulerPolicy":        useDescheduler,
	"deschedulingInterval":     useDescheduler,
	"enable_workload_balancer": useDescheduler,
	"scheduler_kube_api_qps":   "set clientConnection.qps of the KubeSchedulerConfiguration",
	"scheduler_kube_api_burst": "set clientConnection.burst of the KubeSchedulerConfiguration",
	"controller_kube_api_qps":  notScheduler,
	"admission_kube_api_qps":   notScheduler,
	"update_pod_status_qps":    notScheduler,
	"admissions":               notScheduler + ": Volcano's webhooks are used by Volcano's controller",
	"multiAZEnabled":           notScheduler + ": it determines the nodes of the add-on's own pods",
	"multiAZBalance":           notScheduler + ": it determines the nodes of the add-on's own pods",
	"node_match_expressions":   notScheduler + ": it determines the nodes of the add-on's own pods",
	"recommendation_enable":    notScheduler,
}

const useDescheduler = "use a descheduler; Berth moves pods only when you run berth defrag --execute"

// switches are the keys in a plugin's entry that turn parts of the plugin on or off.
var switches = []string{
	"enableJobOrder", "enableHierarchy", "enableJobReady", "enableJobPipelined", "enableTaskOrder", "enablePreemptable", "enableReclaimable",
	"enablePreemptive", "enableQueueOrder", "enabledClusterOrder", "enableClusterOrder", "enablePredicate", "enableBestNode", "enableNodeOrder", "enableTargetJob",
	"enableReservedNodes", "enableJobEnqueued", "enabledVictim", "enableJobStarving", "enabledOverused", "enabledAllocatable",
	"enabledHyperNodeOrder", "enabledSubJobReady", "enabledSubJobPipelined", "enabledSubJobOrder", "enabledHyperNodeGradient",
}

// switchedOff has, by plugin, what Berth does although the configuration switches a part of the
// plugin off. The converter itself handles enableNodeOrder and enableJobEnqueued. Any other switch
// needs no text: it changes nothing in Volcano, or it switches off a part that Berth lacks.
// enablePreemptable and enableJobStarving have an effect only if an action evicts by priority.
var switchedOff = map[string]map[string]string{
	"priority": {
		"enableJobOrder": stillOrders, "enableTaskOrder": stillOrders, "enabledSubJobOrder": stillOrders, "enableJobStarving": stillEvicts, "enablePreemptable": stillEvicts,
	},
	"gang": {
		"enableJobOrder": stillOrders, "enabledSubJobOrder": stillOrders, "enableJobReady": stillWhole, "enableJobPipelined": stillWhole, "enabledSubJobReady": stillWhole, "enabledSubJobPipelined": stillWhole,
		"enableJobStarving": stillEvicts, "enablePreemptable": "in Volcano, the plugin then protects no gang from evictions; in Berth, preemption decides about victims by priority",
	},
	"numa-aware": {"enablePredicate": "Berth nevertheless rejects nodes by their topology manager's policy"},
	"predicates": {"enablePredicate": "kube-scheduler's filters nevertheless reject nodes; to switch one off, list it below plugins.filter.disabled"},
}

const (
	stillOrders = "Berth's order of pods has no such switch: it is by priority, then by time"
	stillEvicts = "Berth's preemption has no such switch: it is by priority"
	stillWhole  = "Berth nevertheless places gangs whole"
	// evictsWhole is about preemptableFn in Volcano's pkg/scheduler/plugins/gang.
	evictsWhole = "in Volcano, preemption leaves each gang its minimum of pods; in Berth, pods of higher priority may evict the whole gang, " +
		`unless its Job or PodGroup has the annotation volcano.sh/preemptable: "false"`
)

// counterparts has, by plugin and argument, the setting of kube-scheduler that replaces an argument
// that is not converted.
var counterparts = map[string]string{
	"extender extender.urlPrefix":                     "urlPrefix of the extender",
	"extender extender.httpTimeout":                   "httpTimeout of the extender",
	"extender extender.ignorable":                     "ignorable of the extender",
	"extender extender.managedResources":              "managedResources of the extender",
	"extender extender.predicateVerb":                 "filterVerb of the extender",
	"extender extender.prioritizeVerb":                "prioritizeVerb of the extender",
	"extender extender.preemptableVerb":               "preemptVerb of the extender",
	"resource-strategy-fit resourceStrategyFitWeight": "the weight of NodeResourcesFit",
	"resource-strategy-fit resources":                 "scoringStrategy.resources of NodeResourcesFit",
}

// predicate is a switch of the plugin predicates.
type predicate struct {
	argument string
	// plugin is the plugin of kube-scheduler that always makes this check, or "" if there is none.
	plugin string
	// on is the note for a switch that is on. It is "" if Berth makes the same check, or if users
	// lose nothing.
	on string
}

// predicates has all switches that any release of Volcano has had.
var predicates = []predicate{
	{"predicate.NodeAffinityEnable", "NodeAffinity", ""},
	{"predicate.NodePortsEnable", "NodePorts", ""},
	{"predicate.TaintTolerationEnable", "TaintToleration", ""},
	{"predicate.PodAffinityEnable", "InterPodAffinity", ""},
	{"predicate.NodeVolumeLimitsEnable", "NodeVolumeLimits", ""},
	{"predicate.VolumeZoneEnable", "VolumeZone", ""},
	{"predicate.PodTopologySpreadEnable", "PodTopologySpread", ""},
	{"predicate.VolumeBindingEnable", "VolumeBinding", ""},
	{"predicate.DynamicResourceAllocationEnable", "DynamicResources", ""},
	{"predicate.MemoryPressureEnable", "TaintToleration", ""}, // the node lifecycle controller taints such nodes
	{"predicate.DiskPressureEnable", "TaintToleration", ""},
	{"predicate.PIDPressureEnable", "TaintToleration", ""},
	{"predicate.CacheEnable", "", "it has no counterpart, and needs none: Berth always caches the answers of nodes"},
	{"predicate.GPUSharingEnable", "", "it has no counterpart: parts of a GPU are out of scope, whole ones are placed with their CPUs"},
	{"predicate.GPUNumberEnable", "", "it has no counterpart, and needs none: a number of whole GPUs is an extended resource (volcano.sh/gpu-number, nvidia.com/gpu), placed with its CPUs"},
}

// proportional is the switch of the plugin predicates that keeps CPUs for devices.
const (
	proportional          = "predicate.ProportionalEnable"
	proportionalResources = "predicate.resources"
)

// binpackResources is the list of the plugin binpack's other resources.
const binpackResources = "binpack.resources"

// argumentsOf returns all arguments that any release of Volcano has read for a plugin, without the
// amounts of resources. It returns nothing for a plugin that the converter does not translate.
func argumentsOf(plugin string) (out []string) {
	switch plugin {
	case "numa-aware":
		out = []string{"weight"}
	case "overcommit":
		out = []string{overcommitFactor}
	case "nodeorder":
		for _, n := range nodeorder {
			out = append(out, n.argument)
		}
		for _, s := range strategies {
			out = append(out, s.argument)
		}
		out = append(out, "selectorspread.weight")
	case "binpack":
		out = []string{"binpack.weight", "binpack.cpu", "binpack.memory", binpackResources}
	case "predicates":
		for _, p := range predicates {
			out = append(out, p.argument)
		}
		out = append(out, proportional, proportionalResources)
	}
	return out
}

// nodeorder has the weights of Volcano's plugin nodeorder: the argument, the plugin of
// kube-scheduler that replaces it, and Volcano's default weight.
var nodeorder = []struct{ argument, plugin, standard string }{
	{"nodeaffinity.weight", "NodeAffinity", "2"},
	{"podaffinity.weight", "InterPodAffinity", "2"},
	{"tainttoleration.weight", "TaintToleration", "3"},
	{"imagelocality.weight", "ImageLocality", "1"},
	{"podtopologyspread.weight", "PodTopologySpread", "2"},
	{"balancedresource.weight", "NodeResourcesBalancedAllocation", "1"},
}

// strategies are the weights of nodeorder that correspond to a scoring strategy of
// NodeResourcesFit.
var strategies = []struct{ argument, strategy string }{
	{"leastrequested.weight", "LeastAllocated"},
	{"mostrequested.weight", "MostAllocated"},
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
