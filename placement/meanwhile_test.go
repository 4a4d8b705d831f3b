package placement_test

import (
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestMemoryIsTakenFromWhatIsThere: a pod leaves while another pod is admitted to the same two NUMA
// nodes. The bytes come from the NUMA node with free memory at the time when the memory manager is
// asked. They stay there whatever memory is released later.
func TestMemoryIsTakenFromWhatIsThere(t *testing.T) {
	ask := func(uid string, n int64, bytes uint64) *placement.Request {
		r := cpus(uid, n)
		r.Containers[0].Memory[0].Bytes = bytes
		return &r
	}
	for _, c := range []struct {
		name string
		step int // the last question, to the memory manager, is 5
		on   int // the NUMA node whose bytes are taken
	}{{"it left before", 5, 0}, {"it leaves after", 6, 1}} {
		t.Run(c.name, func(t *testing.T) {
			config := m2.config("best-effort")
			config.TopologyManagerScope = "pod"
			_, s := model(t, machine{2, 1, 4, 1, 8 << 30, 0}.view(), config)
			var d placement.Decision
			large, small := ask("large", 5, 9<<30), ask("small", 1, 1<<30)
			if v := placement.Decide(s, large, &d); !v.OK() {
				t.Fatal(v)
			}
			s.Commit(large, &d)
			leaving := []placement.Meanwhile{{Step: c.step, UID: "large"}}
			if v := placement.DecideAmid(s, small, leaving, &d); !v.OK() {
				t.Fatal(v)
			}
			s.CommitAmid(small, leaving, &d)
			if err := s.Check(); err != nil {
				t.Error(err)
			}
			for i, table := range s.Snapshot().Memory {
				if got, want := table.Resources[1].Reserved, uint64(1<<30); (got == want) != (i == c.on) || got%want != 0 {
					t.Errorf("NUMA node %d: %+v", i, table)
				}
			}
		})
	}
}
