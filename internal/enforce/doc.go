// Package enforce carries decisions out on a node with authority berth: it tells the container
// runtime, through NRI, on which CPUs and memory nodes each container runs.
//
// Books is what it remembers, and is pure: which container holds which CPUs, and what is left to
// the shared ones. Plugin is the runtime's side: it turns NRI's calls into questions to the Books
// and answers from memory. Nothing here asks the API server; a decision comes with the pod's
// annotations, which the kubelet hands to the runtime. What runs is read back from the cgroup
// (ReadBack).
//
// The rules, each with a run that goes wrong without it, are in docs/protocol.md under "Nodes that
// obey". Shared containers are moved in the replies to CreateContainer and StopContainer alone:
// runtimes whose NRI is older than 0.12.1 may deadlock on updates that they did not ask for
// (containerd#13733).
package enforce
