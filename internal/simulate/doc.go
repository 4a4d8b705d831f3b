// Package simulate plays a cluster: pods of a list arrive at nodes of a list, a strategy chooses
// where each goes, and what was served is counted. Nothing waits for a real clock, and a run is the
// same for the same seed.
//
// A Cluster has two forms. On one (NewAmounts) a pod fits where amounts do, and GPUs come in
// thousandths: the experiment of the FGD paper (USENIX ATC'23), whose figures the simulator is held
// to. The other (NewNUMA) lays a machine with NUMA nodes below each node and asks the engine, as
// the scheduler does.
//
// Scores are remembered by what a node has left and by the shape of a pod, as the scheduler does
// it: nodes that have the same left are asked once.
package simulate
