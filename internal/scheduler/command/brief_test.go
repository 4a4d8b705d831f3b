package command

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/clip"
)

// TestBriefNotes: a note has at most 300 bytes, is cut between reasons, and keeps both
// kube-scheduler's and Berth's first reason.
func TestBriefNotes(t *testing.T) {
	const fails = "0/13 nodes are available: 3 Insufficient cpu, 5 node(s) whose kubelet would refuse the pod: TopologyAffinityError: no set of NUMA nodes is preferred by all resources, 5 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/13 nodes are available: 3 No preemption victims found for incoming pod, 10 Preemption is not helpful for scheduling."
	const own = " Berth: 2 nodes: 70 CPUs need 2 NUMA nodes, and single-numa-node allows 1 (TopologyAffinityError); 3 nodes: NUMA 0 has 31 free CPUs (70 needed), NUMA 1 has 30 (TopologyAffinityError); no preemption helps"
	for name, c := range map[string]struct {
		note string
		want []string
	}{
		"short":            {"0/1 nodes are available: 1 Insufficient cpu.", []string{"0/1 nodes are available: 1 Insufficient cpu."}},
		"kube-scheduler's": {fails, []string{"0/13 nodes are available: 3 Insufficient cpu", noteMore}},
		"both":             {fails + own, []string{"0/13 nodes are available: 3 Insufficient cpu", ". Berth: 2 nodes: 70 CPUs need 2 NUMA nodes, and single-numa-node allows 1 (TopologyAffinityError)", noteMore}},
		"Berth's":          {strings.TrimSpace(own) + own, []string{"Berth: 2 nodes: 70 CPUs need 2", noteMore}},
		"one long word":    {strings.Repeat("é", 400), []string{"é...", noteMore}},
	} {
		got := briefNote(c.note)
		if len(got) > clip.Event || len(c.note) <= clip.Event && got != c.note {
			t.Errorf("%s: %d bytes: %s", name, len(got), got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %q in %q", name, want, got)
			}
		}
		if strings.Contains(got, "victims") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
