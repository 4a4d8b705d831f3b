package survey

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Given is how much of a provider's resource (placement.Provider) the pods of a node use at one
// place. Only the provider knows how much is available.
type Given struct {
	Resource string `json:"resource"`
	Place    string `json:"place"`
	Amount   uint64 `json:"amount"`
}

// givenOf adds up the providers' resources in the Bindings of pods, by resource and place. Of each
// pod, it counts the highest amount that the pod uses at one time.
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
