package survey

import (
	"strings"
	"testing"
)

// TestALabelThatTheKubeletDoesNotKeepIsDoubtful: the kubelet has this policy, but with the scope
// container.
func TestALabelThatTheKubeletDoesNotKeepIsDoubtful(t *testing.T) {
	w := newWorld(t)
	w.Report(w.AddNode("n"))
	w.Nodes[0].Labels = map[string]string{"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"}
	s, err := w.cluster().Survey(t.Context(), "")
	w.Must(err)
	n := s.Nodes()[0]
	if len(n.Warnings) != 1 || n.Warnings[0].Reason != labelIgnored || !strings.Contains(n.Warnings[0].Message, "numa-topology-policy=SingleNUMANode") || n.Trouble != nil {
		t.Errorf("warnings %+v, trouble %+v", n.Warnings, n.Trouble)
	}
}

// TestAKubeletThatPlacesPodsOnceMoreIsDoubtful, but only with the scope pod.
func TestAKubeletThatPlacesPodsOnceMoreIsDoubtful(t *testing.T) {
	for scope, want := range map[string]int{"pod": 1, "container": 0} {
		w := newWorld(t)
		nt := w.AddNode("n")
		nt.Spec.FeatureGates = map[string]bool{"PodLevelResourceManagers": true}
		nt.Spec.TopologyManager.Scope = scope
		w.Report(nt)
		s, err := w.cluster().Survey(t.Context(), "")
		w.Must(err)
		n := s.Nodes()[0]
		if len(n.Warnings) != want || n.Trouble != nil || want == 1 && (n.Warnings[0].Reason != restartRepeats || !strings.Contains(n.Warnings[0].Message, "kubernetes#140989")) {
			t.Errorf("%s: warnings %+v, trouble %+v", scope, n.Warnings, n.Trouble)
		}
	}
}
