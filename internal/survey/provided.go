package survey

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Given is the amount of a provider's resource (placement.Provider) that pods of a node use at one
// place. Only the provider knows the total.
type Given struct {
	Resource string `json:"resource"`
	Place    string `json:"place"`
	Amount   uint64 `json:"amount"`
}

// givenOf adds up the providers' resources in the Bindings of pods, by resource and place. It
// counts the peak amount of each pod.
func givenOf(pods []*corev1.Pod) []Given {
	type place struct{ resource, name string }
	all := map[place]uint64{}
	for _, pod := range pods {
		if !strings.Contains(pod.Annotations[wire.PlacementAnnotation], `"provided"`) || wire.Ended(pod) {
			continue
		}
		p, found, err := wire.ReadPlacement(pod)
		if err != nil || !found {
			continue
		}
		peaks := placement.Peaks[place]{}
		for i := range p.Decision.Containers {
			c := &p.Decision.Containers[i]
			for _, g := range c.Provided {
				peaks.Add(c.Kind, place{g.Resource, g.Place}, g.Amount)
			}
		}
		for at, peak := range peaks {
			all[at] += peak.Most()
		}
	}
	var out []Given
	for at, n := range all {
		out = append(out, Given{at.resource, at.name, n})
	}
	slices.SortFunc(out, func(a, b Given) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Place, b.Place))
	})
	return out
}

// withoutProvided removes the providers' resources from a request, and returns their names. It
// recognises a provider's resource by a Binding that has it, because no other data shows which
// providers a scheduler has.
func (s *Survey) withoutProvided(r *placement.Request) (rest *placement.Request, provided []string) {
	known := map[string]bool{}
	for _, n := range s.nodes {
		for i := range n.given {
			known[n.given[i].Resource] = true
		}
	}
	names := map[string]bool{}
	one := *r
	one.Containers = slices.Clone(r.Containers)
	for i := range one.Containers {
		c := &one.Containers[i]
		c.Devices = slices.DeleteFunc(slices.Clone(c.Devices), func(d placement.DeviceRequest) bool {
			if known[d.Resource] && d.Count > 0 {
				names[d.Resource] = true
			}
			return known[d.Resource]
		})
	}
	if len(names) == 0 {
		return r, nil
	}
	return &one, slices.Sorted(maps.Keys(names))
}

// besideProvided adds to a node's answer the amounts of providers' resources that are in use.
func (n *node) besideProvided(provided []string, a *Answer) {
	if len(provided) == 0 || n.trouble != nil {
		return
	}
	names := strings.Join(provided, ", ")
	for _, g := range n.given {
		if slices.Contains(provided, g.Resource) {
			a.Given = append(a.Given, g)
		}
	}
	switch {
	case !n.decides():
		d := placement.ProviderElsewhere
		*a = Answer{Node: a.Node, Report: a.Report, InFlight: a.InFlight, Answer: Refuses, Message: names + ": " + d.Text(), Advice: d.Advice()}
	case a.Answer == Admits:
		a.Message += ", if the scheduler's provider has enough of " + names + " there"
	}
}
