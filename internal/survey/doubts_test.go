package survey

import (
	"strings"
	"testing"
)

// TestALabelThatTheKubeletDoesNotKeepIsDoubtful: its kubelet has the policy with scope container.
func TestALabelThatTheKubeletDoesNotKeepIsDoubtful(t *testing.T) {
	w := newWorld(t)
	w.report(w.addNode("n"))
	w.Nodes[0].Labels = map[string]string{"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"}
	s, err := w.cluster().Survey(t.Context(), "")
	w.must(err)
	n := s.Nodes()[0]
	if len(n.Warnings) != 1 || n.Warnings[0].Reason != LabelIgnored || !strings.Contains(n.Warnings[0].Message, "numa-topology-policy=SingleNUMANode") || n.Trouble != nil {
		t.Errorf("warnings %+v, trouble %+v", n.Warnings, n.Trouble)
	}
}
