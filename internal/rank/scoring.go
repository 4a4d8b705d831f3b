package rank

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Strategy is the preference for full or for empty NUMA nodes.
type Strategy string

const (
	// MostAllocated prefers the NUMA nodes that would be fullest with the pod, so that large free
	// blocks remain elsewhere.
	MostAllocated Strategy = "MostAllocated"
	// LeastAllocated prefers the NUMA nodes that would be emptiest with the pod.
	LeastAllocated Strategy = "LeastAllocated"
)

// Criterion is a property of an offer by which nodes are compared before all scores.
type Criterion string

const (
	// StrandedBeside is Stranded for pods that ask for no devices, if there is demand for the
	// node's devices. Otherwise it is false. By default it comes before numaNodes, so such a pod
	// leaves CPUs for free devices even if it then uses more NUMA nodes.
	StrandedBeside Criterion = "strandedBeside"
	// NUMANodes is the number of NUMA nodes over which the pod would be spread: fewer are better.
	NUMANodes Criterion = "numaNodes"
	// Groups is the number of groups of free devices that the pod would split by taking only a
	// part. The devices of a group are below one PCI switch, at one root complex, or connected by
	// links (NVLink, xGMI). Fewer are better, so that whole groups stay for pods that need them.
	// The number is known only if Berth decides.
	Groups Criterion = "groups"
	// Stranded is true if the pod would take CPUs that free devices on its NUMA nodes need, because
	// fewer free CPUs would remain than the devices' share. False is better, because later pods
	// need devices together with CPUs. The number of such CPUs does not count, so that Berth fills
	// one NUMA node before it uses another.
	Stranded Criterion = "stranded"
	// Demand is the share of the devices in use whose pods could also run on a node like this one
	// (package demand). A smaller share is better for a pod that asks for devices, so that nodes
	// which many pods could use stay free. Setting.Rank adds the demand to a Rank.
	Demand Criterion = "demand"
	// Devices is the number of free devices that would remain; fewer are better. If the pod asks
	// for devices, free devices of the same resources on the whole node count, so that other nodes
	// stay free. If it asks for none, free devices on its NUMA nodes count, so that the pod avoids
	// them, but only if there is demand for the node's devices.
	Devices Criterion = "devices"
	// Policy is the node's Topology Manager policy. A stricter policy is better, but restricted and
	// single-numa-node are equally good, because both keep an admitted pod together.
	Policy Criterion = "policy"
)

// criteria has all criteria, in the default order.
var criteria = []Criterion{StrandedBeside, NUMANodes, Groups, Stranded, Demand, Devices, Policy}

// Scoring configures how nodes are ordered. FillIn turns the zero value into the defaults.
type Scoring struct {
	// Formula replaces all other settings. The only formula is "volcano". The default is none.
	Formula Formula `json:"formula,omitempty"`
	// First lists the criteria that precede all preferences of other plugins, the most important
	// first. Default strandedBeside, numaNodes, groups, stranded, demand, devices, policy. Criteria
	// that are not listed do not count.
	First []Criterion `json:"first,omitzero"`
	// Strategy is the preference for full or for empty NUMA nodes. Default MostAllocated.
	Strategy Strategy `json:"strategy,omitempty"`
	// Certainty is the weight of certainty: whether the pod's CPUs are known in advance. Default 2.
	// Only the ratio of the weights matters; if all are 0, the defaults apply.
	Certainty int64 `json:"certainty,omitempty"`
	// Fit is the weight of the fit: how well the node matches Strategy. Default 2.
	Fit int64 `json:"fit,omitempty"`
	// Distance is the weight of the closeness of the pod's NUMA nodes. Default 1.
	Distance int64 `json:"distance,omitempty"`
}

// maxWeight is the maximum of a weight, so that sums cannot overflow.
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

// String lists the criteria, the most important first, and the strategy. It names only the formula
// if there is one.
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

// Validate returns an error that names the first wrong field, its value and the expected form.
func (s *Scoring) Validate() error {
	if s.Formula != "" && s.Formula != Volcano {
		return fmt.Errorf("scoring.formula: %.40q: want %s, or no formula", s.Formula, Volcano)
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
		return fmt.Errorf("scoring: certainty, fit and distance are 0: want at least one above 0")
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
