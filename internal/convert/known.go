package convert

import (
	"maps"
	"slices"
	"strings"
)

// Words of what becomes of a plugin or an action.
const (
	servedByKube = "kube-scheduler's own plugins do it"
	useKueue     = "Berth has no queues: use Kueue above it"
	notScheduler = "no matter of a scheduler"
)

// actions says what becomes of each action.
var actions = map[string]string{
	"enqueue":     "berth-scheduler lets a group in when its pods are there and their minimum could be placed",
	"allocate":    "",
	"backfill":    "pods without requests are placed like others; there is no action to switch on",
	"preempt":     "by priority, as kube-scheduler does, for whole gangs; a pod that must not evict has preemptionPolicy: Never",
	"reclaim":     "nobody is evicted for the share of a queue: " + useKueue,
	"shuffle":     "use a descheduler; Berth moves pods only for a plan that somebody asks for (berth defrag)",
	"gangpreempt": "preemption for a gang evicts only when the whole gang then fits; there is no action to switch on",
	"gangreclaim": useKueue,
}

// evicting are the actions that evict pods of lower priority. Volcano runs neither where a
// configuration does not name it.
var evicting = []string{"preempt", "gangpreempt"}

// plugins says what becomes of each plugin. "" means that it is served in full.
var plugins = map[string]string{
	"priority":               "",
	"gang":                   "",
	"numa-aware":             "",
	"predicates":             "",
	"nodeorder":              "",
	"binpack":                "",
	"conformance":            "preemption evicts by priority alone: give critical pods the PriorityClass system-cluster-critical",
	"overcommit":             "groups are admitted by what fits, so there is nothing to overcommit",
	"drf":                    useKueue + " (fair sharing)",
	"proportion":             useKueue,
	"capacity":               useKueue,
	"resourcequota":          "the API server's ResourceQuota counts pods when they are created",
	"sla":                    "there is no longest time to wait: use priorities",
	"tdm":                    "no time divisions of nodes: use taints and tolerations",
	"rescheduling":           "use a descheduler; Berth moves pods only for a plan that somebody asks for (berth defrag)",
	"usage":                  "load of nodes is not looked at: use requests",
	"task-topology":          "use podAffinity and podAntiAffinity in the task's template",
	"deviceshare":            "parts of a GPU are out of scope: whole devices are placed with their CPUs",
	"nodegroup":              "use nodeAffinity, or a taint for each group",
	"pdb":                    "preemption respects PodDisruptionBudgets; there is no plugin to switch on",
	"network-topology-aware": "distances between nodes are out of scope: use Kueue's topology-aware scheduling",
	"extender":               "list it below extenders of the KubeSchedulerConfiguration",
	"cdp":                    "there is no cool-down: use a PodDisruptionBudget",
	"resource-strategy-fit":  "use scoringStrategy of NodeResourcesFit",
	"crossquota":             useKueue,

	"cce-gpu-topology-predicate": "a node's devices are placed by NUMA node under the node's own policy",
	"cce-gpu-topology-priority":  "nodes on which devices keep their CPUs come first; there is no plugin to switch on",
	"cce-gpu":                    "GPUs are extended resources, placed whole; parts of one are out of scope",
	"nodelocalvolume":            servedByKube + " (VolumeBinding)",
	"nodeemptydirvolume":         "ask for ephemeral-storage in the pod's requests",
	"nodeCSIscheduling":          servedByKube + " (NodeVolumeLimits)",
	"networkresource":            "the network plugin's resources are counted where pods ask for them as extended resources",
}

// others says what becomes of keys around the configuration.
var others = map[string]string{
	"apiVersion": "", "kind": "", "metadata": "", "data": "",
	"ca_cert": notScheduler, "server_cert": notScheduler, "server_key": notScheduler,
	"resource_exporter_enable": "berth-agent reports what the exporter did, and more; nodes with only the exporter get the guarantee amounts",
	"configurations":           "arguments of actions: kube-scheduler's own settings hold",
	"metrics":                  "load of nodes is not looked at",
	"plugins.eas_service":      notScheduler + ": it asks a service to make nodes",
}

// inFamily says what becomes of a plugin that belongs to a known one by its first word.
func inFamily(name string) (string, bool) {
	for _, family := range []string{"cce-gpu", "volcano-"} {
		if strings.HasPrefix(name, family) {
			return plugins["cce-gpu"], family == "cce-gpu"
		}
	}
	return "", false
}

// nodeorder says which plugin of kube-scheduler each weight of nodeorder is that of, and Volcano's
// default.
var nodeorder = []struct{ argument, plugin, standard string }{
	{"nodeaffinity.weight", "NodeAffinity", "2"},
	{"podaffinity.weight", "InterPodAffinity", "2"},
	{"tainttoleration.weight", "TaintToleration", "3"},
	{"imagelocality.weight", "ImageLocality", "1"},
	{"podtopologyspread.weight", "PodTopologySpread", "2"},
	{"balancedresource.weight", "NodeResourcesBalancedAllocation", "1"},
}

// strategies are the weights of nodeorder that are ways of NodeResourcesFit.
var strategies = []struct{ argument, strategy string }{
	{"leastrequested.weight", "LeastAllocated"},
	{"mostrequested.weight", "MostAllocated"},
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
