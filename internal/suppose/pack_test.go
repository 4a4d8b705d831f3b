package suppose

import (
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/internal/amounts"
)

// TestPack: each pod of a load is on a node, and no node is too full. All nodes before its own have
// refused the pod, and larger pods came first.
func TestPack(t *testing.T) {
	const room = 10
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var load []Alike
		all, cpus := 0, int64(0)
		for range 1 + rng.IntN(4) {
			size := 1 + rng.Int64N(room)
			load = append(load, Alike{Asks: amounts.List{amounts.CPU: size}, Pods: rng.IntN(6)})
			all, cpus = all+load[len(load)-1].Pods, cpus+size*int64(load[len(load)-1].Pods)
		}
		type bin struct{ used int64 }
		var bins []*bin
		placed, last := 0, int64(room)
		got := Pack(load, func() *bin { bins = append(bins, &bin{}); return bins[len(bins)-1] }, func(on *bin, kind, _ int) bool {
			size := load[kind].Asks[amounts.CPU]
			if size > last {
				t.Fatalf("a pod of %d comes after one of %d", size, last)
			}
			if last = size; on.used+size > room {
				return false
			}
			for _, b := range bins {
				if b == on {
					break
				}
				if b.used+size <= room {
					t.Fatalf("a pod of %d passes a node that has %d of %d in use", size, b.used, room)
				}
			}
			on.used += size
			placed++
			return true
		})
		if placed != all || got != len(bins) || int64(got)*room < cpus {
			t.Errorf("%v: %d of %d pods on %d of %d nodes", load, placed, all, got, len(bins))
		}
	}
}

// TestPackEndsWhereNothingFits: a pod that an empty node refuses is not tried again.
func TestPackEndsWhereNothingFits(t *testing.T) {
	if got := Pack([]Alike{{Pods: 3}}, func() int { return 0 }, func(int, int, int) bool { return false }); got != 1 {
		t.Errorf("%d nodes, want the one that refused", got)
	}
}
