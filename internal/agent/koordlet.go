package agent

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// entrusted returns the resources of pods on a node where koordlet carries out decisions. The agent
// does not check koordlet's work. A pod has the resources of its decision from its admission until
// the kubelet no longer runs the pod.
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
