// Package demo runs a cluster with real Kubernetes programs on simulated machines. It runs the same
// pods under one scheduler and then under another, and reports the results.
//
// A Cluster is a control plane and hollow nodes: real kubelets on simulated machines, each in its
// own process. A Workload is a list of pods with the times of their creation and deletion. It is
// computed from a seed, so both schedulers get the same pods. The Runner creates and deletes the
// pods, and returns a Report.
package demo
