// Package simulate simulates a cluster: pods of a list arrive, a strategy chooses a node for each
// pod, and the simulation adds up the resources of the pods that get a node. It uses no real clock,
// and runs with the same seed give the same results.
//
// There are two kinds of Cluster. Start.Ground creates a Cluster whose nodes have NUMA nodes,
// kubelets and running pods; this Cluster asks the placement engine, as the scheduler does.
// NewAmounts creates a Cluster without NUMA nodes, in which a pod fits on a node with enough free
// CPUs, memory and GPUs.
//
// The simulation caches scores by the node's free resources and the pod's shape, so all nodes with
// the same free resources share a score. The lab (lab/) adds more strategies.
package simulate
