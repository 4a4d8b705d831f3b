package rank

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Strategy is whether full or empty NUMA nodes are preferred.
type Strategy string

const (
	// MostAllocated prefers the NUMA nodes that the pod fills most, so that large free blocks
	// survive.
	MostAllocated Strategy = "MostAllocated"
	// LeastAllocated prefers the NUMA nodes that the pod leaves emptiest.
	LeastAllocated Strategy = "LeastAllocated"
)

// Criterion is something that outvotes all other plugins.
type Criterion string

const (
	// StrandedBeside is Stranded for a pod that asks for no devices, if the devices of the node are
	// in demand: such a pod rather lies on more NUMA nodes elsewhere than beside free devices that
	// it leaves without their CPUs.
	StrandedBeside Criterion = "strandedBeside"
	// NUMANodes is the number of NUMA nodes over which the pod would be spread: fewer are better.
	NUMANodes Criterion = "numaNodes"
	// Groups is the number of groups of free devices that belong together, below one PCI switch, at
	// one root complex or by links (NVLink, xGMI), if the pod would take some of a group and not
	// all: fewer are better, so that whole groups stay for who needs them. It is known where Berth
	// decides.
	Groups Criterion = "groups"
	// Stranded is whether free devices on these NUMA nodes would be left with fewer CPUs than are
	// their part, and have them now: better not, so that a device keeps its CPUs for who needs
	// both. How many they are does not count: one NUMA node is rather filled than several begun.
	Stranded Criterion = "stranded"
	// Demand is how much of the devices that pods have in this cluster they could also have on a
	// node like this one (package demand): less is better for a pod that asks for devices. So nodes
	// that suit many pods stay free for pods that find no other. Setting puts it into a Rank.
	Demand Criterion = "demand"
	// Devices is the number of free devices that are left over: fewer are better. For a pod that
	// asks for some they are those of the whole node and these kinds, so that whole nodes stay
	// free. For one that asks for none they are those on these NUMA nodes, so that it stays away
	// from them, unless nobody uses a device of the node.
	Devices Criterion = "devices"
	// Policy is the policy of the Topology Manager of the node: stricter is better, but restricted
	// is as good as single-numa-node. Both keep together what they admit.
	Policy Criterion = "policy"
)

// criteria are all that there are, in their default order.
var criteria = []Criterion{StrandedBeside, NUMANodes, Groups, Stranded, Demand, Devices, Policy}

// Scoring configures the order of nodes. FillIn makes the zero value the defaults.
type Scoring struct {
	// Formula replaces all else: "volcano". Default none.
	Formula Formula `json:"formula,omitempty"`
	// First is what puts a node before another, whatever other plugins prefer: the most important
	// first. Default strandedBeside, numaNodes, groups, stranded, demand, devices, policy. What is
	// left out does not count.
	First []Criterion `json:"first,omitzero"`
	// Strategy of the fit. Default MostAllocated.
	Strategy Strategy `json:"strategy,omitempty"`
	// Certainty weighs that what the node will do is known to the CPU. Default 2. The weights are
	// relative to each other; all zero means the defaults.
	Certainty int64 `json:"certainty,omitempty"`
	// Fit weighs the strategy. Default 2.
	Fit int64 `json:"fit,omitempty"`
	// Distance weighs that the NUMA nodes of the pod are close to each other. Default 1.
	Distance int64 `json:"distance,omitempty"`
}

// maxWeight bounds a weight, so that sums cannot overflow.
const maxWeight = 1000

// FillIn sets unset fields to their defaults. An empty list that is not nil stays empty.
func (s *Scoring) FillIn() {
	if s.First == nil {
		s.First = slices.Clone(criteria)
	}
	s.Strategy = cmp.Or(s.Strategy, MostAllocated)
	if s.Certainty == 0 && s.Fit == 0 && s.Distance == 0 {
		s.Certainty, s.Fit, s.Distance = 2, 2, 1
	}
}

// String describes the criteria, the most important first.
func (s *Scoring) String() string {
	if s.Formula != "" {
		return "formula " + string(s.Formula)
	}
	var words []string
	for _, c := range s.First {
		words = append(words, string(c))
	}
	return strings.Join(append(words, "then "+string(s.Strategy)), ", ")
}

// Validate returns an error that names a wrong field, its value and what would be right.
func (s *Scoring) Validate() error {
	if s.Formula != "" && s.Formula != Volcano {
		return fmt.Errorf("scoring.formula: %.40q: want %s, or none", s.Formula, Volcano)
	}
	for i, c := range s.First {
		if !slices.Contains(criteria, c) {
			return fmt.Errorf("scoring.first[%d]: %.40q: want %s", i, c, allCriteria())
		}
		if slices.Contains(s.First[:i], c) {
			return fmt.Errorf("scoring.first[%d]: %.40q: want each once", i, c)
		}
	}
	if s.Strategy != MostAllocated && s.Strategy != LeastAllocated {
		return fmt.Errorf("scoring.strategy: %.40q: want %s or %s", s.Strategy, MostAllocated, LeastAllocated)
	}
	sum := int64(0)
	for _, w := range []struct {
		name   string
		weight int64
	}{{"certainty", s.Certainty}, {"fit", s.Fit}, {"distance", s.Distance}} {
		if w.weight < 0 || w.weight > maxWeight {
			return fmt.Errorf("scoring.%s: %d: want a weight from 0 to %d", w.name, w.weight, maxWeight)
		}
		sum += w.weight
	}
	if sum == 0 {
		return fmt.Errorf("scoring: certainty, fit and distance are 0: want one of them above")
	}
	return nil
}

func allCriteria() string {
	names := make([]string, len(criteria))
	for i, c := range criteria {
		names[i] = string(c)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
