// Package hollow is a node without a machine: the kubelet's own pod source, sync loop, pod workers
// and status manager (k8s.io/kubernetes v1.36.3), with its own Topology, CPU, Memory and Device
// Managers over a machine that the caller describes. Containers are entries in a fake runtime's
// table; everything that decides about admission and placement is the genuine code, called in the
// genuine order.
//
// What stands in for pkg/kubelet/cm.containerManagerImpl, which would touch cgroups and kernel
// tunables, is manager in manager.go; it keeps the order in which that type builds and starts the
// managers.
//
// Two kubelets in one process collide in metrics and feature gates, so a node is a process of its
// own: Launch starts one by executing the calling program again, Run is what that process does.
// Everything a node keeps on disk (checkpoints, sockets, its configuration) is in the directory of
// its Spec.
package hollow
