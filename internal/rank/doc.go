// Package rank orders the nodes that admit a pod. It is pure: it computes a Rank from a node's
// Offer, and knows neither the cluster nor the scheduler.
//
// A Rank has two parts. The Tier is compared first: the number of NUMA nodes over which the pod
// would be spread, the number of devices that would lose their CPUs, and the strictness of the
// node's kubelet. The Score is added to the scores of other plugins: certainty, fit, distance.
package rank
