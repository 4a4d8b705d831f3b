// Package placement is the engine: it predicts how a kubelet decides about a pod.
//
// A KubeletView and a Config are compiled once into a Model. A State holds the allocations on that
// node. Admit reports whether the node would admit a Request. Decide also returns the CPUs, memory
// blocks and devices that the request would get. Explain explains a refusal. All three are pure: no
// clock, no randomness, no I/O, no goroutines, no Kubernetes types. They never change the State.
// Commit, Release, Start and other methods change the State as the kubelet would.
//
// # How it decides
//
// An admission works on copies of the node's books, which record the allocations. For each
// container, or once for a pod, every provider (provider.go) lists the sets of NUMA nodes that
// could provide its resource. The merger (merge.go) finds the set that the kubelet would choose,
// without the product of all lists. The policy (policy.go) accepts or refuses the set, and the
// providers assign from it. Their tables and algorithms are in placement/cpu, placement/memory and
// placement/device, and the lists of sets are in placement/hint. A new resource implements
// provider.
//
// If Berth decides (AuthorityBerth), the package does not predict a kubelet. The same functions
// then call placement/joint, which finds the fewest NUMA nodes for all resources at once, by the
// pod's rules.
//
// # What it answers
//
// A verdict has a Reason, in the kubelet's own words if it has any, and a Detail for each distinct
// rule. The reason is KubeletDefect if the kubelet would crash or could not restart afterwards; see
// Config.GuardDefects. If Verdict.Random is set, the kubelet makes a random choice: verdict and
// hints are right, but device ids may differ.
//
// A verdict about a pod that the node does not know depends only on the Model, on
// State.AppendStateKey and on the Request without its UID. So a cache with these three as its key
// is exact.
//
// # Releases
//
// Tests compare the decisions for 1.33 to 1.37 with the genuine managers (test/conformance).
package placement
