// Package placement is the engine: it predicts what a kubelet decides for a pod.
//
// A KubeletView and a Config are compiled once into a Model. A State holds what is assigned on that
// node. Admit reports whether the node would admit a Request, Decide also returns the CPUs, memory
// blocks and devices that the request would get, and Explain explains a refusal. All three are
// pure: no clock, no randomness, no I/O, no goroutines, no Kubernetes types, and they never change
// the State. Commit, Release, Start and other methods change the State as the kubelet would.
//
// # How it decides
//
// An admission works on copies of the node's books. For each container, or once for a pod, every
// provider (provider.go) lists the sets of NUMA nodes that could provide its resource. The merger
// (merge.go) finds the set that the kubelet would choose, without the product of all lists. The
// policy (policy.go) accepts or refuses the set, and the providers assign from it. Their tables and
// algorithms are in placement/cpu, placement/memory and placement/device, the lists of sets in
// placement/hint. A new resource implements provider.
//
// If Berth decides (AuthorityBerth), nothing is predicted. The same functions ask placement/joint,
// which finds the narrowest place for everything at once, by the rules of the pod.
//
// # What it answers
//
// A verdict has a Reason, in the kubelet's own words if it has any, and a Detail for each distinct
// rule. The reason is KubeletDefect if the kubelet would crash, or could not restart afterwards:
// see Config.GuardDefects. If Verdict.Random is set, the kubelet leaves a choice to chance; verdict
// and hints are right, device ids may differ.
//
// A verdict on a pod that the node does not know depends on the Model, on State.AppendLikeness and
// on the Request without its UID: a cache keyed by these is exact.
//
// # Releases
//
// Decisions of 1.33 to 1.37 are compared with the genuine managers (test/conformance).
package placement
