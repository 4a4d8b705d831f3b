package ledger

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestAReservedPodDoesNotFloodThePosted: events that may happen after a pod's admission do not
// count for the pods before it, whether their states are computed before or after its reservation.
func TestAReservedPodDoesNotFloodThePosted(t *testing.T) {
	cfg := pinning
	cfg.MemoryManagerPolicy = "Static"
	cfg.ReservedMemory = []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 30}}}
	k := newKubelet(t, model(t, twoSockets, cfg))
	n := open(t, k)
	for i := range maxEvents {
		r := cpus(fmt.Sprint("ending", i), 1)
		k.must(r)
		n.See(Sighting{UID: r.UID, Request: r, Phase: Ending})
	}
	n.Accept(k.report())
	check(t, n)
	r := cpus("x", 1)
	r.Containers = append(cpus("", 1).Containers, r.Containers...)
	r.Containers[0].Name, r.Containers[0].Kind = "init", placement.Init // its memory is freed when the next container starts
	if a := reserve(t, n, r); !a.OK() {
		t.Fatal(a)
	}
	if n.outlook.afterPosted().uncertain() || n.outlook.afterReserved().why != ManyEvents {
		t.Errorf("%q before it and %q after it, want to be certain before it", n.outlook.afterPosted().why, n.outlook.afterReserved().why)
	}
	post(t, n, r.UID)
}
