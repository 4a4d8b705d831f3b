// Package oracle asks the genuine kubelet: it wires the Topology, CPU, Memory and Device Manager of
// k8s.io/kubernetes as pkg/kubelet/cm.NewContainerManager does, plays the events of a case to them
// and writes down what they decided.
//
// The managers are linked, not imitated. What surrounds them is: the list of active pods, device
// plugins that answer in process, and checkpoints in a directory in memory. The package builds
// against several releases of Kubernetes; files named adapter_*.go hold what differs between them,
// chosen by the build tags kube133 to kube136 (none of them: the
// release that the main module requires).
//
// A kubelet can hang or crash on a legal input, and every CPU manager leaves a goroutine behind for
// ever, so cases belong in a child process that is thrown away now and then: see package
// conformance.
package oracle
