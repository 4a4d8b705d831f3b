// Package demo runs a cluster that is real except for its machines. It runs a load of pods under
// one scheduler and then under another, and reports the results.
//
// A Cluster is a control plane in this process and hollow nodes in their own processes. A Workload
// is a list of pods with the times of their creation and deletion. It follows from a seed and is
// the same for both schedulers. The Runner creates and deletes the pods, and makes a Report.
package demo
