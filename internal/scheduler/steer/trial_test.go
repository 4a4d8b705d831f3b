package steer

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/topology"
)

// TestTrial: pods that are planned together have devices as they would have them one after the
// other.
func TestTrial(t *testing.T) {
	t.Parallel()
	type step struct {
		pod   string
		would Would
		takes bool // what it had
		want  bool
	}
	sure := func(numa ...int) Would {
		l := Lying{}
		if len(numa) > 0 {
			l["main"] = 0
		}
		for _, n := range numa {
			l["main"] = l["main"].With(topology.NUMAID(n))
		}
		return Would{Lying: l, Sure: true}
	}
	loose := sure(0)
	loose.Sure, loose.Loose = false, true
	unsure := sure(0)
	unsure.Sure = false
	for name, c := range map[string]struct {
		mode  claims.Mode
		steps []step
	}{
		"a NUMA node has one":              {required, []step{{"c", sure(1), false, true}, {"e", sure(1), false, false}, {"e", sure(0), false, true}}},
		"one is taken back":                {required, []step{{"c", sure(1), false, true}, {"c", Would{}, true, true}, {"e", sure(1), false, true}}},
		"CPUs on both":                     {required, []step{{"c", sure(0, 1), false, true}, {"e", sure(0, 1), false, true}, {"f", sure(0, 1), false, false}}},
		"near takes the other":             {near, []step{{"c", sure(1), false, true}, {"e", sure(1), false, true}, {"f", sure(1), false, false}}},
		"a pod that says nothing":          {claims.Free, []step{{"c", Would{}, false, true}, {"e", Would{}, false, true}, {"f", Would{}, false, false}}},
		"its CPUs are not certain":         {required, []step{{"c", unsure, false, false}}},
		"not certain, and near":            {near, []step{{"c", unsure, false, true}}},
		"nothing is pinned":                {required, []step{{"c", sure(), false, false}}},
		"another one would become loose":   {required, []step{{"c", sure(1), false, true}, {"none", loose, false, false}}},
		"nobody there has to be certain":   {near, []step{{"c", sure(1), false, true}, {"none", loose, false, true}}},
		"a pod without claims takes none":  {required, []step{{"none", sure(1), false, true}, {"c", sure(1), false, true}}},
		"a claim that there is not passes": {required, []step{{"missing", sure(1), false, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.mode, nil, two(), claim("c", "r"), claim("e", "r"), claim("f", "r"))
			trial := w.Trial(w.ctx)
			for i, s := range c.steps {
				pod := podWith(s.pod)
				if s.pod == "none" {
					pod = podWith()
				}
				pod.UID = types.UID(s.pod)
				if s.takes {
					trial.Take(pod.UID)
					continue
				}
				if got := trial.Give(pod, w.node, s.would); got != s.want {
					t.Errorf("step %d, pod %s: %t, want %t", i, s.pod, got, s.want)
				}
			}
			if got := w.has("c"); got != "" {
				t.Errorf("claim c has %s: want a trial that nobody sees", got)
			}
		})
	}
}

// TestTrialWithDevicesOfBefore: an allocated claim is judged, and given nothing.
func TestTrialWithDevicesOfBefore(t *testing.T) {
	t.Parallel()
	for numa, want := range map[int]bool{0: false, 1: true} {
		w := newWorld(t, required, nil, two(), allocatedTo(claim("c", "r"), "d1", "p"), claim("e", "r"))
		trial := w.Trial(w.ctx)
		would := Would{Lying: Lying{"main": set(topology.NUMAID(numa))}, Sure: true}
		if got := trial.Give(podWith("c"), w.node, would); got != want {
			t.Errorf("its device is on NUMA node 1, its CPUs on %d: %t", numa, got)
		}
		other := podWith("e")
		other.UID = "other"
		if got := trial.Give(other, w.node, would); got != !want { // d1 is taken
			t.Errorf("another one on NUMA node %d: %t", numa, got)
		}
	}
}
