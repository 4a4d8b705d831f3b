// Package simulate simulates a cluster. The pods of a list arrive, a strategy chooses a node for
// each pod, and the simulation counts the resources of the pods that got a node. It uses no real
// clock, and runs with the same seed are equal.
//
// There are two kinds of Cluster. A Start makes one whose nodes have NUMA nodes, kubelets and
// running pods. It asks the placement engine, as the scheduler does. NewAmounts makes one on which
// a pod fits if the amounts of its resources do.
//
// Scores are cached by the node's free resources and the pod's shape, so the strategy computes one
// score for all equal nodes. The lab (lab/) adds more strategies.
package simulate
