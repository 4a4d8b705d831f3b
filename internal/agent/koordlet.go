package agent

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// entrusted returns what pods hold if koordlet carries decisions out. Nobody reads back what it
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
