// Package hollow runs a node without a machine. The node has the kubelet's own pod source, sync
// loop, pod workers and status manager (k8s.io/kubernetes v1.37.2). The kubelet's own Topology,
// CPU, Memory and Device Managers work on a machine that the caller describes. Containers are
// entries in the table of a fake runtime. All code that decides on admission and placement is the
// kubelet's own code, and it is called in the kubelet's order.
//
// The type manager replaces pkg/kubelet/cm.containerManagerImpl, which would change cgroups and
// kernel parameters. The type manager creates and starts the kubelet's managers in the same order.
//
// Two kubelets in one process would share metrics and feature gates, so each node has its own
// process. Launch starts this process, whose main function is Main. All files of a node
// (checkpoints, sockets, configuration) are in its Dir.
package hollow
