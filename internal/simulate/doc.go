// Package simulate simulates a cluster: pods of a list arrive, a strategy chooses a node for each,
// and the served resources are counted. It uses no real clock, and a run is the same for the same
// seed.
//
// A Cluster has two forms. A Start has nodes with NUMA nodes, their kubelets and running pods; it
// asks the engine, as the scheduler does. With NewAmounts a pod fits if its amounts do.
//
// Scores are remembered by what a node has left and by the shape of a pod, so nodes with equal
// rests are asked once. The lab (lab/) adds more strategies.
package simulate
