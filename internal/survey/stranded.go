package survey

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/stranded"
	"github.com/berth-dev/berth/topology"
)

// Stranded is what is stranded of a resource on a NUMA node (package stranded), and why: on a node
// that takes no pods it is all that is free.
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

// StrandedSum is what is stranded of a resource on all NUMA nodes together.
type StrandedSum struct {
	Resource string `json:"resource"`
	Stranded uint64 `json:"stranded"`
	// Reasons are all there are, each once, the one that strands most first.
	Reasons []StrandedReason `json:"reasons"`
	// Count is how many NUMA nodes have some of it stranded.
	Count int `json:"count"`
}

// StrandedReason is how much is stranded for one reason, on how many NUMA nodes.
type StrandedReason struct {
	Reason   string `json:"reason"`
	Stranded uint64 `json:"stranded"`
	Count    int    `json:"count"`
}

// SumStranded adds up what Survey.Stranded returned, by resource.
func SumStranded(all []Stranded) (sums []StrandedSum) {
	for i := range all {
		one := &all[i]
		at := slices.IndexFunc(sums, func(s StrandedSum) bool { return s.Resource == one.Resource })
		if at < 0 {
			at = len(sums)
			sums = append(sums, StrandedSum{Resource: one.Resource})
		}
		sums[at].add(one)
	}
	for i := range sums {
		slices.SortFunc(sums[i].Reasons, func(a, b StrandedReason) int {
			return cmp.Or(cmp.Compare(b.Stranded, a.Stranded), cmp.Compare(a.Reason, b.Reason))
		})
	}
	return sums
}

func (s *StrandedSum) add(one *Stranded) {
	s.Stranded, s.Count = s.Stranded+one.Stranded, s.Count+1
	at := slices.IndexFunc(s.Reasons, func(r StrandedReason) bool { return r.Reason == one.Reason })
	if at < 0 {
		at = len(s.Reasons)
		s.Reasons = append(s.Reasons, StrandedReason{Reason: one.Reason})
	}
	s.Reasons[at].Stranded += one.Stranded
	s.Reasons[at].Count++
}

// strandedOn is what is stranded on one NUMA node.
func strandedOn(n *Node, m *NUMANode, object *corev1.Node) (out []Stranded) {
	for _, p := range m.Parts() {
		one := Stranded{Node: n.Name, NUMA: m.NUMA, Resource: p.Resource, Free: p.Free, Stranded: p.Stranded}
		switch {
		case n.Trouble != nil:
			one.Stranded, one.Reason, one.Message = p.Free, n.Trouble.Reason, n.Trouble.Message
		case object != nil && object.Spec.Unschedulable:
			one.Stranded, one.Reason, one.Message = p.Free, strandedCordoned, "the node is cordoned"
		case p.Beside.Resource == stranded.Memory:
			one.Reason, one.Message = strandedNoMemory, besideText(&p)+" memory"
		default:
			one.Reason, one.Message = strandedNoCPUs, besideText(&p)+" CPUs"
		}
		if one.Stranded > 0 {
			out = append(out, one)
		}
	}
	return out
}

// besideText says how much is free, and beside how much of what strands it.
func besideText(p *stranded.Part) string {
	free, other := func(n uint64) string { return AmountText(p.Resource, n) }, func(n uint64) string { return AmountText(p.Beside.Resource, n) }
	return fmt.Sprintf("%s of %s free, beside %s of %s", free(p.Free), free(p.Total), other(p.Beside.Free), other(p.Beside.Total))
}

// AmountText writes an amount of a resource: bytes with a unit, everything else as a number.
func AmountText(resource string, n uint64) string {
	if stranded.IsBytes(resource) {
		return topology.RoughBytes(n)
	}
	return fmt.Sprint(n)
}
