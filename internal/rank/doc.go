// Package rank chooses among the nodes that admit a pod. It is pure: it computes a Rank from what a
// node offers, and knows neither the cluster nor the scheduler.
//
// A Rank has two parts. The Tier outvotes everything else: how many NUMA nodes the pod would be
// spread over, how many devices it would leave without their CPUs, how strict the node's kubelet
// is. The Score counts beside what others think of the node: certainty, fit, distance.
package rank
