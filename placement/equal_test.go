package placement_test

import (
	"reflect"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestEqual compares with a simple implementation: states are equal if their snapshots are equal.
func TestEqual(t *testing.T) {
	equal, different := 0, 0
	compare := func(w *world) {
		states := []*placement.State{w.state, w.state.Clone()}
		for _, uid := range w.pods[:min(2, len(w.pods))] {
			gone := w.state.Clone()
			gone.Release(uid)
			back := gone.Clone()
			r := w.asked[uid]
			var d placement.Decision
			if v := placement.Decide(back, &r, &d); v.OK() {
				back.Commit(&r, &d)
			}
			states = append(states, gone, back)
		}
		snap := w.state.Snapshot()
		if read, err := w.model.StateOf(&snap); err == nil {
			states = append(states, read)
		}
		for _, a := range states {
			for _, b := range states {
				want := reflect.DeepEqual(a.Snapshot(), b.Snapshot())
				if want {
					equal++
				} else {
					different++
				}
				if got := a.Equal(b); got != want {
					t.Fatalf("got %v, want %v of\n%+v\n%+v", got, want, a.Snapshot(), b.Snapshot())
				}
			}
		}
	}
	for seed := range uint64(120) {
		live(t, seed, compare)
	}
	if equal < 100 || different < 100 {
		t.Errorf("%d pairs were equal and %d were not: want many of both", equal, different)
	}
}
