package scheduler

import coordinationv1 "k8s.io/api/coordination/v1"

// nodeOfLease returns the node that an agent's heartbeat is of: the Lease has its name.
func nodeOfLease(lease *coordinationv1.Lease) string { return lease.Name }
