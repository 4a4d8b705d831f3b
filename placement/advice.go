package placement

import (
	"fmt"
	"slices"
	"strings"
)

// Advice returns what a person can do about the refusal, in the imperative; "" if there is nothing
// to do. If a resource is short, the advice depends on whether the node or only a NUMA node has too
// little, and whether the empty node has enough.
//
// It names no nodes that the pod's own rules exclude.
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
		return "ask for less, so that it fits on fewer NUMA nodes, or use nodes whose NUMA nodes have more" + width
	}
	return "wait until pods end that are in the way (berth defrag says which would have to move), or ask for less" + width
}

// adviceForNeed is about the first need that the node as a whole does not cover, ever or now; ""
// for none.
func (r *Refusal) adviceForNeed(never bool) string {
	for i := range r.Needs {
		switch n := &r.Needs[i]; {
		case never && n.lacksEver():
			return fmt.Sprintf("ask for less, or use other nodes: this one has %s %s for pods in all", n.amount(n.total()), n.unit())
		case !never && n.Free < n.Asked:
			return n.await()
		}
	}
	return ""
}

// shortages are the rules that say no because something is short, on the node or in one place.
var shortages = []Detail{NotPreferred, TooFewCPUs, NoDefaultMemory, DefaultMemoryNotPreferred, NoMemoryExtension, MemoryExtensionNotPreferred,
	TooFewDevices, TooWide, NoCPUs, NoRoom, NoDevices, NotProvided, ProvidedApart}

// adviceForNever is for rules by which the empty node says no as well, and no amount explains why.
var adviceForNever = map[Detail]string{
	TooFewWholeCores: "ask for fewer CPUs, or use other nodes: this one never has so many whole cores without reserved CPUs",
	NoSuchCores:      "leave a wish out (berth.dev/cpus, exclusive, l3), or use nodes whose NUMA nodes have more",
	NotExactly:       "ask for another number of NUMA nodes, or for at least one CPU on each; or use nodes whose NUMA nodes have more",
	NotTogether:      "leave berth.dev/devices out or only prefer it, ask for as many of each resource as there are such places, or use nodes where more devices lie together",
}

// total is what the NUMA nodes have in all of the resource when they are empty.
func (n *Need) total() (sum uint64) {
	for i := range n.Nodes {
		sum += n.Nodes[i].Total
	}
	return sum
}

// lacksEver reports whether even the empty node has less in all than is asked. Of devices that are
// on no NUMA node nobody knows.
func (n *Need) lacksEver() bool { return len(n.Nodes) > 0 && n.total() < n.Asked }

// await describes what to do if the node has too little in all, for now.
func (n *Need) await() string {
	if n.Free == 0 {
		return fmt.Sprintf("wait until pods end that have %s, or add nodes: none is free here", n.unit())
	}
	return fmt.Sprintf("wait until pods end that have %s, add nodes, or ask for at most %s", n.unit(), n.amount(n.Free))
}

// milder returns who has to have a policy that is less strict: the pod's own annotation counts if
// Berth decides, and the kubelet's configuration elsewhere.
func (r *Refusal) milder() string {
	if r.Reason == NoBerth {
		return "; or let the pod be spread: berth.dev/policy: best-effort"
	}
	return milderNodes
}

// milderNodes is advice that a pod may rule out: see AdviceFor.
const milderNodes = "; or use nodes whose kubelet has the policy best-effort"

// AdviceFor is Advice for a pod with the rules asked. It names no nodes that these rules exclude.
func (d Detail) AdviceFor(asked Rules) string { return asked.advice(d.Advice()) }

// advice leaves out of a text what the rules rule out: whoever insists on a policy stricter than
// best-effort, or on a number of NUMA nodes, gets no node whose kubelet has that one.
func (r Rules) advice(text string) string {
	open := r.NUMANodes == 0 && r.Devices.PerNode == 0
	if open && r.keptBy(Rules{Policy: PolicyBestEffort, Scope: r.Scope, OwnCPUs: r.OwnCPUs}) {
		return text
	}
	return strings.TrimSuffix(text, milderNodes)
}
