// Package simulate simulates a cluster. Pods of a list arrive, a strategy chooses a node for each,
// and the simulation counts the served resources. It uses no real clock, and runs with the same
// seed are equal.
//
// A Cluster has two forms. A Start has nodes with NUMA nodes, their kubelets and running pods; it
// asks the engine, as the scheduler does. With NewAmounts a pod fits if its amounts do.
//
// Scores are cached by the node's free resources and the pod's shape, so the strategy is asked once
// for equal nodes. The lab (lab/) adds more strategies.
package simulate
