// Package placement is the engine: it predicts a kubelet's decision about a pod.
//
// NewModel compiles a KubeletView and a Config into the Model of a node. A State holds the
// allocations on this node. Admit reports whether the node would admit a Request. Decide also
// returns the CPUs, memory blocks and devices that the request would get. Explain explains a
// refusal. All three are pure: they read no clock, use no random numbers, do no I/O, start no
// goroutines and never change the State. The package uses no Kubernetes types. Commit, Release,
// Start and other methods change the State as the kubelet would.
//
// # How it decides
//
// An admission works on copies of the node's books, which record the allocations. For each
// container, or once for a pod, every manager (manager.go) lists the sets of NUMA nodes that could
// provide its resource. The merger (merge.go) finds the set that the kubelet would choose, without
// trying every combination of one set from each list. The policy (policy.go) accepts or refuses the
// set, and the managers assign resources from it. The algorithms of the three managers are in
// placement/cpu, placement/memory and placement/device, and lists of sets in placement/hint.
//
// If Berth decides (AuthorityBerth), the package does not predict a kubelet. The same functions
// then use placement/joint, which applies the pod's rules and finds the fewest NUMA nodes for all
// resources at once.
//
// # What it answers
//
// A verdict has a Reason and a Detail. The Reason is spelled as in the kubelet if the kubelet has
// this reason. The Detail is the rule that refused the pod. The Reason is KubeletDefect if the
// kubelet would hang, crash or corrupt its state; see Config.GuardDefects. If Verdict.Random is
// set, the kubelet makes a random choice: the Reason and the hints are still correct, but the
// kubelet may choose other CPUs and devices, or refuse the pod with another Detail.
//
// A verdict about a pod that the State does not have depends only on the Model, on the key of
// State.AppendStateKey, and on the Request without its UID. So a cache of verdicts can use these
// three as its key.
//
// # Releases
//
// test/conformance compares the decisions with those of the kubelet's own managers, for Kubernetes
// 1.33 to 1.37.
package placement
