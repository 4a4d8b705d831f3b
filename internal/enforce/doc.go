// Package enforce carries out decisions on a node with authority berth. Through NRI it tells the
// container runtime the CPUs and memory nodes of each container.
//
// Books is the state: the CPUs of each container, and the CPUs that are left for shared containers.
// It does no I/O of its own. Plugin is the connection to the runtime. It translates NRI's calls
// into calls of Books, and answers from memory. The package does not ask the API server, because a
// decision is in the pod's annotations, which the kubelet passes to the runtime. ReadBack reads
// from the cgroup where containers really run.
//
// docs/protocol.md, "Nodes that obey", has the rules, each with an example of a failure without the
// rule. Shared containers are moved only in the replies to CreateContainer and StopContainer,
// because runtimes with an NRI older than 0.12.1 can deadlock on unsolicited updates
// (containerd#13733).
package enforce
