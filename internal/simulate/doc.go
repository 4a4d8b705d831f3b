// Package simulate plays a cluster: pods of a list arrive at nodes, a strategy chooses where each
// goes, and what was served is counted. Nothing waits for a real clock, and a run is the same for
// the same seed.
//
// A Cluster has two forms. A Start is nodes with NUMA nodes, their kubelets and what runs there; it
// asks the engine, as the scheduler does. On NewAmounts a pod fits if its amounts do.
//
// Scores are remembered by what a node has left and by the shape of a pod, as the scheduler does
// it: nodes that have the same left are asked once. The lab (lab/) brings strategies of its own.
package simulate
