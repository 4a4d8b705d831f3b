package scheduler

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// nodeOfLease returns the node that an agent's heartbeat is of, and whether it is one.
func nodeOfLease(lease *coordinationv1.Lease) (string, bool) {
	return strings.CutPrefix(lease.Name, v1alpha1.HeartbeatName(""))
}
