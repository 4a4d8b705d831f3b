package wire

import (
	"fmt"
	"slices"
)

// UnservedKind is a kind of another project that Berth does not support. When a user creates an
// object of the kind, the API server returns Warning as a warning.
type UnservedKind struct {
	Group, Resource, Kind string
	// Jobs means that berth-controller would have to support the kind. The API server warns only if
	// berth-controller is installed, because otherwise Volcano's own controller may support the
	// kind.
	Jobs bool
	// Instead names a program that supports the kind, or a replacement.
	Instead string
}

const byVolcanosController = "Volcano's own controller runs it, if installed"

// unservedKinds are the unsupported kinds. Run make generate after a change.
var unservedKinds = []UnservedKind{
	{"batch.volcano.sh", "cronjobs", "CronJob", true, byVolcanosController},
	{"bus.volcano.sh", "commands", "Command", true, byVolcanosController},
	{"flow.volcano.sh", "jobflows", "JobFlow", true, byVolcanosController},
	{"flow.volcano.sh", "jobtemplates", "JobTemplate", true, byVolcanosController},
	{"scheduling.volcano.sh", "queues", "Queue", false, "Berth checks only if the queue is closed, and ignores shares and quotas: use Kueue above it"},
	{"topology.volcano.sh", "hypernodes", "HyperNode", false, "Berth does not look at the network: use Kueue's topology-aware scheduling"},
	{"shard.volcano.sh", "nodeshards", "NodeShard", false, "Berth does not divide the nodes among schedulers: one scheduler places pods on all nodes"},
	{"config.volcano.sh", "colocationconfigurations", "ColocationConfiguration", false, "Volcano's own agent reads it, if installed"},
	{"scheduling.sigs.k8s.io", "elasticquotas", "ElasticQuota", false, "Berth has no quotas: use Kueue above it"},
	{"scheduling.x-k8s.io", "elasticquotas", "ElasticQuota", false, "Berth has no quotas: use Kueue above it"},
	{"scheduling.koordinator.sh", "clusternetworktopologies", "ClusterNetworkTopology", false, "Berth does not look at the network: use Kueue's topology-aware scheduling"},
}

// UnservedKinds returns the kinds of other projects that Berth does not support.
func UnservedKinds() []UnservedKind { return slices.Clone(unservedKinds) }

// Warning returns the warning that an object of the kind has no effect.
func (k *UnservedKind) Warning() string {
	return fmt.Sprintf("Berth does not support the kind %s of %s: %s", k.Kind, k.Group, k.Instead)
}
