package survey

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/stranded"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// Stranded is how much of a resource is stranded on a NUMA node, and why (package stranded). If the
// node accepts no pods, all its free resources count as stranded.
type Stranded struct {
	Node string          `json:"node"`
	NUMA topology.NUMAID `json:"numa"`
	// Resource is "cpu", "memory", a size of huge pages, or a device plugin's resource.
	Resource string `json:"resource"`
	Free     uint64 `json:"free"`
	Stranded uint64 `json:"stranded"`
	// Reason is the reason of the node's trouble, or Cordoned. For other nodes, it is NoCPUs,
	// NoMemory, or TooFewDevices: fewer devices remain than pods request at a time.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Rule describes how the stranded amount was computed (stranded.Part.Rule). It is "" if the
	// node accepts no pods.
	Rule string `json:"rule,omitempty"`
}

// The values of Stranded.Reason in addition to the reasons of a node's trouble.
const (
	strandedCordoned = "Cordoned"
	strandedNoCPUs   = "NoCPUs"
	strandedNoMemory = "NoMemory"
	strandedTooFew   = "TooFewDevices"
)

// Stranded returns the stranded resources, sorted by resource. For each resource, the largest
// amount comes first; equal amounts are sorted by node and NUMA node. `wants` describes how pods
// use devices.
func (s *Survey) Stranded(wants *stranded.Wants) []Stranded {
	var out []Stranded
	for _, name := range s.Names() {
		n := s.States[name]
		sum := n.summary(s.Now)
		for i := range sum.NUMANodes {
			if m := &sum.NUMANodes[i]; !m.Anywhere {
				out = append(out, strandedOn(&sum, m, n.Object, wants)...)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Stranded) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(b.Stranded, a.Stranded))
	})
	return out
}

// StrandedSum is the stranded amount of a resource on all NUMA nodes together.
type StrandedSum struct {
	Resource string `json:"resource"`
	Stranded uint64 `json:"stranded"`
	// Reasons has each reason once. The reason with the largest stranded amount comes first.
	Reasons []StrandedReason `json:"reasons"`
	// Count is the number of NUMA nodes on which a part of the resource is stranded.
	Count int `json:"count"`
}

// StrandedReason is how much of a resource is stranded for one reason, and on how many NUMA nodes.
type StrandedReason struct {
	Reason   string `json:"reason"`
	Stranded uint64 `json:"stranded"`
	Count    int    `json:"count"`
}

// SumStranded adds up the results of Survey.Stranded, by resource.
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

func strandedOn(n *Node, m *NUMANode, object *corev1.Node, wants *stranded.Wants) (out []Stranded) {
	for _, p := range m.Parts(wants) {
		one := Stranded{Node: n.Name, NUMA: m.NUMA, Resource: p.Resource, Free: p.Free, Stranded: p.Stranded}
		switch {
		case n.Trouble != nil:
			one.Stranded, one.Reason, one.Message = p.Free, n.Trouble.Reason, n.Trouble.Message
		case object != nil && object.Spec.Unschedulable:
			one.Stranded, one.Reason, one.Message = p.Free, strandedCordoned, "the node is cordoned"
		case p.Beside.Resource == "" && p.Stranded > 0:
			one.Reason, one.Message, one.Rule = strandedTooFew, fmt.Sprintf("%d of %d free, but pods ask for several at a time", p.Free, p.Total), p.Rule
		case p.Beside.Resource == stranded.Memory:
			one.Reason, one.Message, one.Rule = strandedNoMemory, besideText(&p)+" memory", p.Rule
		default:
			one.Reason, one.Message, one.Rule = strandedNoCPUs, besideText(&p)+" CPUs", p.Rule
		}
		if one.Stranded > 0 {
			out = append(out, one)
		}
	}
	return out
}

// Wants describes how pods use devices.
type Wants = stranded.Wants

// maxShapes is the maximum number of shapes that free devices are compared with.
const maxShapes = 64

// wantsOf returns the most frequent requests among the pods that ask for devices. These pods may
// wait, run, or have ended.
func (c *Cluster) wantsOf(pods []*corev1.Pod) *stranded.Wants {
	out := &stranded.Wants{PerDevice: c.Terms.CPUsPerDevice}
	count, shapes := map[string]int{}, map[string]stranded.Shape{}
	for _, pod := range pods {
		s := stranded.Shape{Devices: map[string]uint64{}}
		asks := wire.ReadAmounts(pod)
		for r, n := range asks {
			if amounts.IsExtended(r) && n > 0 {
				s.Devices[r] = uint64(n)
			}
		}
		if len(s.Devices) == 0 {
			continue
		}
		s.CPUs, s.Memory = uint64(max(0, asks[amounts.CPU])+999)/1000, uint64(max(0, asks[amounts.Memory]))
		key := fmt.Sprint(s.CPUs, s.Memory, s.Devices)
		count[key]++
		shapes[key] = s
	}
	keys := slices.SortedFunc(maps.Keys(shapes), func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	for _, key := range keys[:min(len(keys), maxShapes)] {
		out.Shapes = append(out.Shapes, shapes[key])
	}
	return out
}

// Wants reads the cluster's pods, and returns how they use devices.
func (c *Cluster) Wants(ctx context.Context) (*stranded.Wants, error) {
	pods, err := c.From.PodsIn(ctx, metav1.NamespaceAll, "")
	if err != nil {
		return nil, err
	}
	all := make([]*corev1.Pod, len(pods))
	for i := range pods {
		all[i] = &pods[i]
	}
	return c.wantsOf(all), nil
}

// besideText compares the free amount of the stranded resource with the free amount of the scarce
// resource on the same NUMA node (Part.Beside).
func besideText(p *stranded.Part) string {
	free, other := func(n uint64) string { return AmountText(p.Resource, n) }, func(n uint64) string { return AmountText(p.Beside.Resource, n) }
	return fmt.Sprintf("%s of %s free, but only %s of %s", free(p.Free), free(p.Total), other(p.Beside.Free), other(p.Beside.Total))
}

// AmountText formats an amount of a resource: bytes with a unit, everything else as a number.
func AmountText(resource string, n uint64) string {
	if stranded.IsBytes(resource) {
		return topology.RoughBytes(n)
	}
	return fmt.Sprint(n)
}
