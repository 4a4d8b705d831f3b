// Package enforce carries out decisions on a node with authority berth: it tells the container
// runtime, through NRI, on which CPUs and memory nodes each container runs.
//
// Books is its state, and pure: which container holds which CPUs, and what is left for shared
// containers. Plugin is the runtime's side: it translates NRI's calls into calls of Books and
// answers from memory. The package does not ask the API server; a decision is in the pod's
// annotations, which the kubelet passes to the runtime. ReadBack reads from the cgroup where
// containers really run.
//
// docs/protocol.md, "Nodes that obey", has the rules, each with a run that fails without it. Shared
// containers are moved only in the replies to CreateContainer and StopContainer: runtimes with an
// NRI older than 0.12.1 can deadlock on unsolicited updates (containerd#13733).
package enforce
