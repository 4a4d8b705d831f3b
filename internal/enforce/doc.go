// Package enforce carries out decisions on a node with authority berth. It sets the CPUs and memory
// nodes of each container through NRI, the plugin interface of the container runtime.
//
// Books is the state: the CPUs of each container, and the CPUs that are left for shared containers.
// It does no I/O itself. Plugin is the connection to the runtime. It translates NRI's calls into
// calls of Books. The package does not ask the API server: the decision of a Binding is in the
// pod's annotations, which the kubelet passes to the runtime. The agent passes newer decisions
// about resized pods to Plugin.Decide. ReadBack reads a container's actual CPUs from its cgroup.
//
// docs/protocol.md, "Nodes that obey", has the rules, each with an example of a failure without the
// rule. Runtimes with an NRI older than 0.12.1 can deadlock on unsolicited updates
// (containerd#13733). For these, Plugin moves containers only in replies to the runtime.
package enforce
