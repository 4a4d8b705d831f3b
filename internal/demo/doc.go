// Package demo runs a cluster that is real except for its machines. It plays a load of pods under
// one scheduler and then under another, and reports the results.
//
// A Cluster is a control plane in this process and hollow nodes in their own processes. A Workload
// is a list of operations made from a seed, the same for both schedulers. The Runner carries them
// out and makes a Report.
package demo
