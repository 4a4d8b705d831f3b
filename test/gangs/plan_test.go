package main

import (
	"reflect"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

func TestSeedDeterminesThePlan(t *testing.T) {
	a := NewPlan(1, 100)
	if !reflect.DeepEqual(a, NewPlan(1, 100)) {
		t.Error("two plans of one seed differ")
	}
	if reflect.DeepEqual(a, NewPlan(2, 100)) {
		t.Error("plans of two seeds are equal")
	}
}

// TestPlanHasEverything: with any seed, a hundred gangs include all kinds.
func TestPlanHasEverything(t *testing.T) {
	for seed := range uint64(20) {
		p := NewPlan(seed+1, 100)
		sources, mixed := map[wire.GangSource]int{}, 0
		have := map[string]int{}
		for i := range p.Gangs {
			g := &p.Gangs[i]
			sources[g.Source]++
			total, inits := int64(0), 0
			for _, m := range g.Members {
				total += max(m.CPUs, m.Init)
				if m.Init > 0 {
					inits++
				}
			}
			if g.shapes() >= 3 && inits > 0 {
				mixed++
			}
			if n := len(g.Members); n < 2 || n > 32 || g.Minimum < 2 || g.Minimum > n {
				t.Errorf("gang %s has %d members, and a minimum of %d", g.Name, n, g.Minimum)
			}
			if g.TooLarge != (len(g.Members) > tooMany && g.Members[0].CPUs == large) || !g.TooLarge && total > fitting {
				t.Errorf("gang %s asks for %d CPUs", g.Name, total)
			}
			if g.Kill.After >= g.Minimum {
				t.Errorf("gang %s has its scheduler killed after %d of %d Bindings", g.Name, g.Kill.After, g.Minimum)
			}
			for what, is := range map[string]bool{"too large": g.TooLarge, "urgent": g.Urgent, "scaled": len(g.More) > 0, "loses": g.Loses, "killed": g.Kill.After > 0,
				"optional members": g.Minimum < len(g.Members), "tasks": g.Tasks != nil, "resources": g.Resources > 0, "timeout": g.Timeout > 0, "object last": g.ObjectLast} {
				if is {
					have[what]++
				}
			}
		}
		if mixed < 30 {
			t.Errorf("seed %d: %d gangs have three shapes or more, and init containers, want 30", seed, mixed)
		}
		if len(sources) != 3 || len(have) != 10 || len(p.Singles) < 20 || len(p.Restarts) < 2 {
			t.Errorf("seed %d: sources %v, gangs that are %v, %d single pods, %d restarts", seed, sources, have, len(p.Singles), len(p.Restarts))
		}
	}
}
