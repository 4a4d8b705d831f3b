// Package demo runs a cluster that is real except for its machines, puts a load of pods on it under
// one scheduler and then another, and reports what became of the pods.
//
// A Cluster is a control plane in this process and hollow nodes in processes of their own. A
// Workload is a list of operations made from a seed: the same for both schedulers. The Runner plays
// it; the Report is what it saw.
package demo
