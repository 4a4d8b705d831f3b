package agent

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// decidedFor returns what the decision on a pod gives its containers; nil where it has none that
// can be believed.
func decidedFor(pod *corev1.Pod) []placement.ContainerAllocation {
	p, found, err := wire.ReadPlacement(pod)
	if !found || err != nil {
		return nil
	}
	out := make([]placement.ContainerAllocation, 0, len(p.Decision.Containers))
	for i := range p.Decision.Containers {
		c := &p.Decision.Containers[i]
		out = append(out, placement.ContainerAllocation{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Exclusive: c.Exclusive, Shares: c.Shares, Memory: c.Memory})
	}
	return out
}

var errNoKoordlet = errors.New("koordlet is to carry decisions out, and no pod of this node runs it")

// entrusted says what pods hold where koordlet carries decisions out. Nobody reads back what it
// did: a pod holds what was decided from its admission on, until the kubelet does not run it any
// more.
func (m *mirror) entrusted(s *sighting) *obeyed {
	out := &obeyed{koordlet: true, problem: errNoKoordlet, pods: map[string][]placement.ContainerAllocation{}}
	for uid, f := range s.pods {
		if f.owner == koordletImage && f.ended.IsZero() {
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
