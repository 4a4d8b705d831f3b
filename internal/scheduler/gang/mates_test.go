package gang

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// TestMembersAskForEachOthersNUMANodes: one node with room for all, and another. NUMA nodes of 3
// and 4 CPUs.
func TestMembersAskForEachOthersNUMANodes(t *testing.T) {
	for name, c := range map[string]struct {
		cpus  int
		wish  map[string]string
		bound int
		nodes int
		said  string
	}{
		"other":     {1, map[string]string{wire.OtherNUMAAnnotation: "*"}, 2, 2, ""},
		"same":      {1, map[string]string{wire.SameNUMAAnnotation: "a-0"}, 2, 1, ""},
		"never":     {3, map[string]string{wire.SameNUMAAnnotation: "a-0"}, 0, 0, "2 nodes: has room, and none that is certain to keep what the pods ask about each other's NUMA nodes"},
		"preferred": {3, map[string]string{wire.SameNUMAAnnotation: "preferred: a-0"}, 2, 1, ""},
		"missing":   {1, map[string]string{wire.SameNUMAAnnotation: "b-0"}, 0, 0, "asks for NUMA nodes beside pod b-0, which does not wait in its gang"},
		"wrong":     {1, map[string]string{wire.SameNUMAAnnotation: "a-1"}, 0, 0, "want another pod of the gang, not the pod itself"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.create(podOf("a", "a-0", 2, c.cpus))
				pod := podOf("a", "a-1", 2, c.cpus)
				for key, value := range c.wish {
					pod.Annotations[key] = value
				}
				w.create(pod)
				w.run(20 * time.Second)
				nodes := map[string]bool{}
				for _, pod := range w.pods {
					if pod.Spec.NodeName != "" {
						nodes[pod.Spec.NodeName] = true
					}
				}
				if got := w.bound("a"); got != c.bound || len(nodes) != c.nodes {
					t.Errorf("%d members are bound to %v: want %d on %d nodes", got, nodes, c.bound, c.nodes)
				}
				if said := w.said(); !strings.Contains(said, c.said) {
					t.Errorf("said %q, want %q", said, c.said)
				}
			})
		})
	}
}
