// Package placement is the engine: it knows what a kubelet decides for a pod.
//
// The flow is one way. A KubeletView and a Config are compiled once into a Model. A State says what
// is handed out on that node. Admit answers whether the node would take a Request, Decide also says
// which CPUs, memory blocks and devices it would get, Explain says why not. All three are pure: no
// clock, no randomness, no I/O, no goroutines, no Kubernetes types, and they never change the
// State. Commit, Release, Start and the other methods of State do, each as the kubelet does it.
//
// # How it decides
//
// An admission works on copies of the node's books. For each container, or once for a pod, every
// provider (provider.go) names the sets of NUMA nodes that could give its resource; the merger
// (merge.go) finds the set that the kubelet would settle for, without its product of all lists; the
// policy (policy.go) takes or refuses it; and the providers hand out what it allows. The providers'
// tables and algorithms live in placement/cpu, placement/memory and placement/device, the lists of
// sets in placement/hint. A new resource joins by implementing provider.
//
// Where Berth decides (AuthorityBerth) nothing is predicted: the same functions ask
// placement/joint, which finds the narrowest place for everything at once, by the rules of the pod.
//
// # What it answers
//
// The kubelet's own words where it has them (Reason), and a Detail for each distinct rule behind
// them. What the kubelet would not survive, or what would leave it unable to restart, comes under
// KubeletDefect: see Config.GuardDefects. Verdict.Random says that the kubelet leaves a choice to
// chance; verdicts and hints of that container stand, device ids may differ.
//
// A verdict on a pod that the node does not know depends on the Model, on State.AppendLikeness and
// on the Request without its UID: a cache keyed by these is exact.
//
// # Releases
//
// Decisions of 1.33 to 1.37 are compared with the genuine managers (test/conformance).
package placement
