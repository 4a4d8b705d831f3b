package placement

import (
	"fmt"
	"slices"
	"strings"
)

// Advice returns advice for the user, in the imperative, or "" if nothing helps. If too little of a
// resource is free, the advice depends on whether the whole node or only a NUMA node has too
// little, and on whether the empty node has enough.
//
// The advice does not recommend nodes that the pod's own rules exclude.
func (r *Refusal) Advice() string { return r.asked.advice(r.advice()) }

func (r *Refusal) advice() string {
	if r.advised && !slices.Contains(fixed, r.Detail) {
		return r.remedy()
	}
	never := r.Scarcity == Unresolvable.String()
	if advice, own := adviceForNever[r.Detail]; own && never {
		return advice
	}
	if !slices.Contains(shortages, r.Detail) || len(r.Needs) == 0 {
		return r.Detail.Advice()
	}
	if advice := r.adviceForNeed(never); advice != "" {
		return advice
	}
	width := ""
	if r.Policy == PolicySingleNUMANode.String() || r.Policy == PolicyRestricted.String() {
		width = r.milder()
	}
	if never {
		return "ask for less, so that the pod fits on fewer NUMA nodes, or use nodes with more resources on each NUMA node" + width
	}
	return "wait until other pods end (berth defrag shows which pods would have to move), or ask for less" + width
}

// adviceForNeed returns advice about the first resource of which the whole node has too little
// free, or "". If never is set, even the empty node refuses the pod, and the advice is about the
// first resource of which the empty node has too little.
func (r *Refusal) adviceForNeed(never bool) string {
	for i := range r.Needs {
		switch n := &r.Needs[i]; {
		case never && n.lacksEver():
			return fmt.Sprintf("ask for less, or use other nodes: this one has %s %s for pods in total", n.amount(n.total()), n.unit())
		case !never && n.Free < n.Asked:
			return n.await()
		}
	}
	return ""
}

// shortages are the rules that refuse a pod because too little of a resource is free.
var shortages = []Detail{NotPreferred, TooFewCPUs, NoDefaultMemory, DefaultMemoryNotPreferred, NoMemoryExtension, MemoryExtensionNotPreferred,
	TooFewDevices, TooWide, NoCPUs, NoRoom, NoDevices, NotProvided, ProvidedApart}

// adviceForNever has the advice for pods that even the empty node refuses, although its amounts are
// large enough.
var adviceForNever = map[Detail]string{
	TooFewWholeCores: "ask for fewer CPUs, or use other nodes: this one never has so many whole cores without reserved CPUs",
	NoSuchCores:      "leave a wish out (berth.dev/cpus, exclusive, l3), or use nodes with more resources on each NUMA node",
	NotExactly:       "ask for another number of NUMA nodes, or for at least one CPU on each; or use nodes with more resources on each NUMA node",
	NotTogether:      "leave berth.dev/devices out or only prefer it, ask for fewer devices, or use nodes with more devices at each PCI switch or root complex",
}

// total returns the amount on all NUMA nodes of the empty node.
func (n *Need) total() (sum uint64) {
	for i := range n.Nodes {
		sum += n.Nodes[i].Total
	}
	return sum
}

// lacksEver reports whether the request exceeds the total of the empty node. It returns false for
// devices without a NUMA node, whose total is not known.
func (n *Need) lacksEver() bool { return len(n.Nodes) > 0 && n.total() < n.Asked }

// await returns advice for a node that has too little now, but enough when it is empty.
func (n *Need) await() string {
	if n.Free == 0 {
		return fmt.Sprintf("wait until other pods release %s (none is free here), or add nodes", n.unit())
	}
	return fmt.Sprintf("wait until other pods release %s, add nodes, or ask for at most %s", n.unit(), n.amount(n.Free))
}

// milder advises a less strict policy in the pod's annotation if Berth refused the pod. If the
// kubelet refused it, milder advises other nodes.
func (r *Refusal) milder() string {
	if r.Reason == NoBerth {
		return "; or let the pod be spread: berth.dev/policy: best-effort"
	}
	return milderNodes
}

// milderNodes is advice that AdviceFor leaves out if the pod's rules exclude nodes with the policy
// best-effort.
const milderNodes = "; or use nodes whose kubelet has the policy best-effort"

// AdviceFor returns Advice for a pod with the rules asked. It does not recommend nodes that these
// rules exclude.
func (d Detail) AdviceFor(asked Rules) string { return asked.advice(d.Advice()) }

// advice removes milderNodes from a text if the rules exclude these nodes, or usually do. A pod
// with a stricter policy than best-effort accepts none of them, unless its Match is Whatever. A pod
// with a number of NUMA nodes accepts none either. A pod with a number of devices per NUMA node
// accepts one only if it asks for all devices of the machine (ForetellDevices).
func (r Rules) advice(text string) string {
	open := r.NUMANodes == 0 && r.Devices.PerNode == 0
	if open && r.keptBy(Rules{Policy: PolicyBestEffort, Scope: r.Scope, OwnCPUs: r.OwnCPUs}) {
		return text
	}
	return strings.TrimSuffix(text, milderNodes)
}
