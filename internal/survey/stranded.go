package survey

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/topology"
)

// Stranded is what is free on a NUMA node and of little use to pods that want all they ask for
// there, in the proportion in which the NUMA node has it.
type Stranded struct {
	Node string          `json:"node"`
	NUMA topology.NUMAID `json:"numa"`
	// Resource is "cpu", "memory", huge pages or a device plugin's.
	Resource string `json:"resource"`
	Free     uint64 `json:"free"`
	Stranded uint64 `json:"stranded"`
	// Reason is one word: the node's trouble, Cordoned, or NoCPUs, NoMemory where these are short.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Reasons beside those of a node's trouble.
const (
	strandedCordoned = "Cordoned"
	strandedNoCPUs   = "NoCPUs"
	strandedNoMemory = "NoMemory"
)

// Stranded returns what is stranded, most of a resource first, then by node and NUMA node.
func (s *Survey) Stranded() []Stranded {
	var out []Stranded
	for _, name := range s.Names() {
		n := s.nodes[name]
		sum := n.summary(s.Now)
		for i := range sum.NUMANodes {
			if m := &sum.NUMANodes[i]; !m.Anywhere {
				out = append(out, strandedOn(&sum, m, n.object)...)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Stranded) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(b.Stranded, a.Stranded))
	})
	return out
}

// strandedOn is what is stranded on one NUMA node.
func strandedOn(n *Node, m *NUMANode, object *corev1.Node) (out []Stranded) {
	for _, a := range amountsOn(m) {
		if a.Free == 0 {
			continue
		}
		one := Stranded{Node: n.Name, NUMA: m.NUMA, Resource: a.Resource, Free: a.Free}
		switch {
		case n.Trouble != nil:
			one.Stranded, one.Reason, one.Message = a.Free, n.Trouble.Reason, n.Trouble.Message
		case object != nil && object.Spec.Unschedulable:
			one.Stranded, one.Reason, one.Message = a.Free, strandedCordoned, "the node is cordoned"
		default:
			one.beside(m, a)
		}
		if one.Stranded > 0 {
			out = append(out, one)
		}
	}
	return out
}

// amountsOn lists what a NUMA node has, CPUs first.
func amountsOn(m *NUMANode) []Amount {
	var out []Amount
	if m.CPUs != nil {
		out = append(out, Amount{"cpu", m.CPUs.Free, m.CPUs.Total})
	}
	return append(append(out, m.Memory...), m.Devices...)
}

// beside says how much of a resource has too few free CPUs, or too little free memory, beside it.
// What of the two strands more is the reason.
func (s *Stranded) beside(m *NUMANode, a Amount) {
	for _, other := range amountsOn(m) {
		isCPU, isMemory := other.Resource == "cpu", other.Resource == "memory"
		if other.Resource == a.Resource || !isCPU && !isMemory || other.Total == 0 || a.Total == 0 {
			continue
		}
		usable := uint64(float64(other.Free) / float64(other.Total) * float64(a.Total))
		if usable >= a.Free || a.Free-usable <= s.Stranded || a.Free-usable < atLeast(a) {
			continue
		}
		s.Stranded, s.Reason = a.Free-usable, strandedNoCPUs
		beside := fmt.Sprintf("%d of %d CPUs", other.Free, other.Total)
		if isMemory {
			s.Reason, beside = strandedNoMemory, RoughBytes(other.Free)+" of "+RoughBytes(other.Total)+" memory"
		}
		s.Message = fmt.Sprintf("%s of %s free, beside %s", a.text(a.Free), a.text(a.Total), beside)
	}
}

// atLeast is how much of a resource is worth mentioning: a device, or a tenth of CPUs or bytes.
func atLeast(a Amount) uint64 {
	if a.Resource == "cpu" || isBytes(a.Resource) {
		return max(1, a.Total/10)
	}
	return 1
}

// text writes an amount of the resource.
func (a *Amount) text(n uint64) string {
	if isBytes(a.Resource) {
		return RoughBytes(n)
	}
	return fmt.Sprint(n)
}

// isBytes says whether a resource is counted in bytes.
func isBytes(resource string) bool {
	return resource == "memory" || len(resource) > len(corev1.ResourceHugePagesPrefix) && resource[:len(corev1.ResourceHugePagesPrefix)] == corev1.ResourceHugePagesPrefix
}

// AmountText writes an amount of a resource: bytes with a unit, everything else as a number.
func AmountText(resource string, n uint64) string { return (&Amount{Resource: resource}).text(n) }
