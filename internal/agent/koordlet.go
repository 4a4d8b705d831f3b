package agent

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// notePlacement notes under which authority the pod was placed, and what koordlet was given to
// carry out. It goes by the placement, which comes with the Binding and by no other way.
func (f *podFacts) notePlacement(pod *corev1.Pod) {
	p, found, err := wire.ReadPlacement(pod)
	if !found || err != nil {
		return
	}
	f.entrusted = p.Koordlet
	f.obeys = !p.Koordlet && (p.Authority == placement.AuthorityBerth || hasOwnWords(&p.Decision))
	// A placement from before placements named koordlet: what the pod holds is in it all the same.
	unnamed := p.Authority == placement.AuthorityKubelet && pod.Annotations[wire.KoordinatorStatusAnnotation] != ""
	if f.entrusted || unnamed {
		f.decided = decidedBy(&p)
	}
}

// hasOwnWords says whether a decision has what only Berth's own decisions have.
func hasOwnWords(d *placement.Decision) bool {
	return slices.ContainsFunc(d.Containers, func(c placement.ContainerDecision) bool {
		return len(c.Shares) > 0 || c.Exclusive != 0 || c.Bounds != 0
	})
}

// decidedBy returns what a placement gives the containers of its pod.
func decidedBy(p *wire.Placement) []placement.ContainerAllocation {
	out := make([]placement.ContainerAllocation, 0, len(p.Decision.Containers))
	for i := range p.Decision.Containers {
		c := &p.Decision.Containers[i]
		out = append(out, placement.ContainerAllocation{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Exclusive: c.Exclusive, Shares: c.Shares, Memory: c.Memory})
	}
	return out
}

// entrusted says what pods hold where koordlet carries decisions out. Nobody reads back what it
// did: a pod holds what was decided from its admission on, until the kubelet does not run it any
// more.
func (m *mirror) entrusted(s *sighting) *obeyed {
	out := &obeyed{koordlet: true, problem: errNoKoordlet, pods: map[string][]placement.ContainerAllocation{}}
	for uid, f := range s.pods {
		if f.owner == koordlet && f.ended.IsZero() {
			out.problem = nil
		}
		if f.ended.IsZero() {
			delete(m.history.over, uid)
		}
		if len(f.decided) > 0 && !m.history.over[uid] && (!f.ended.IsZero() || s.admitted(uid)) {
			out.pods[uid] = slices.Clone(f.decided)
		}
	}
	return out
}
