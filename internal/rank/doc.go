// Package rank orders the nodes that admit a pod. It computes a Rank from a node's Offer. It is
// pure, and depends on no cluster and no scheduler.
//
// A Rank has two parts. The Tier is compared first. By default it has seven criteria, such as the
// number of NUMA nodes of the pod and the node's policy. The Score is added to the scores of other
// plugins, and has three parts: certainty, fit and distance.
package rank
