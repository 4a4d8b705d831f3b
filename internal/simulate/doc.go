// Package simulate simulates a cluster: pods of a list arrive, a strategy chooses a node for each
// pod, and the simulation adds up the resources of the pods that get a node. It uses no real clock,
// and runs with the same seed give the same results.
//
// There are two kinds of Cluster. A Start creates a Cluster whose nodes have NUMA nodes, kubelets
// and running pods. It asks the placement engine, as the scheduler does. NewAmounts creates a
// Cluster on which a pod fits if the node has enough of each amount that the pod asks for.
//
// Scores are cached by the node's free resources and the pod's shape, so the strategy computes one
// score for all equal nodes. The lab (lab/) adds more strategies.
package simulate
