// Package rank orders the nodes that admit a pod. It computes the Rank of a node from an Offer,
// which describes what the node offers to the pod. The package is pure, and depends on no cluster
// and no scheduler.
//
// A Rank has two parts. The Tier is compared first. It combines criteria, by default seven, such as
// the number of NUMA nodes of the pod and the node's policy. The Score has three parts: certainty,
// fit and distance. The scheduler adds it to the scores of other plugins.
package rank
