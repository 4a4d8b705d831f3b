package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// TestFreeCPUsCanBeHad: a pod that wants CPUs of one NUMA node gets exactly as many as some NUMA
// node has free. This is true for both authorities, and after other pods: pods with exclusive CPUs,
// pods with CPU time and, if Berth decides, pods that want to be alone.
func TestFreeCPUsCanBeHad(t *testing.T) {
	single := placement.Rules{Policy: placement.PolicySingleNUMANode}
	alone := placement.Rules{Policy: placement.PolicySingleNUMANode, CPUs: joint.Rules{Exclusive: joint.ExclusiveNUMA, ExclusiveHow: joint.Preferred}}
	for name, config := range map[string]placement.Config{
		"berth":   obeying(),
		"kubelet": {Version: placement.V136, CPUManagerPolicy: "static", ReservedMilliCPU: 1000, TopologyManagerPolicy: "single-numa-node"},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			m := made.ModelOf(t, two8.view(), config)
			s := m.NewState()
			for i := range r.IntN(4) {
				rules := single
				if name == "berth" && r.IntN(3) == 0 {
					rules = alone
				}
				milli := []int64{1000, 2000, 1500, 300, 3000}[r.IntN(5)]
				ask := guaranteed(fmt.Sprint("p", i), rules, app("a", milli, 0))
				if name == "kubelet" {
					ask.Rules = placement.Rules{}
				}
				var d placement.Decision
				if v := placement.Decide(s, &ask, &d); v.OK() {
					s.Commit(&ask, &d)
				}
			}
			most := 0
			for pos := range 2 {
				all := topology.NewCPUSet()
				for id := range 8 {
					all.Add(topology.CPUID(pos*8 + id))
				}
				most = max(most, s.FreeCPUsOn(&topology.NUMANode{ID: topology.NUMAID(pos), CPUs: all}))
			}
			for n := 1; n <= 8; n++ {
				ask := guaranteed("asks", single, app("a", int64(n)*1000, 0))
				if name == "kubelet" {
					ask.Rules = placement.Rules{}
				}
				if v := placement.Admit(s, &ask); v.OK() != (n <= most) {
					t.Fatalf("%s: %d CPUs of one NUMA node: admitted %t, though at most %d are free on one", name, n, v.OK(), most)
				}
			}
		}
	}
}
