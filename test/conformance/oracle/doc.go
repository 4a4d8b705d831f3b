// Package oracle asks the genuine kubelet. It connects the Topology, CPU, Memory and Device Manager
// of k8s.io/kubernetes as pkg/kubelet/cm.NewContainerManager does, sends them the events of a case
// and records their decisions.
//
// The managers are linked, not imitated. The package imitates the list of active pods and the
// device plugins, and keeps checkpoints in a directory in memory. The package builds against
// several releases of Kubernetes. Files named adapter_*.go have the differences between them,
// chosen by the build tags kube133 to kube136 (without a tag: the release that the main module
// requires).
//
// A kubelet can hang or crash on a legal input, and every CPU manager leaves a goroutine behind. So
// cases belong in a child process that is replaced from time to time: see package conformance.
package oracle
