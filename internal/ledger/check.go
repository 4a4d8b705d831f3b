package ledger

import (
	"fmt"
	"slices"
)

// Check returns an error if the node violates an invariant. The lists of pods must agree with the
// pods' stages, turns must ascend, every possible state must pass State.Check, and cached values
// must equal recomputed values.
func (v View) Check() error {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	if err := o.facts.checkStages(); err != nil {
		return err
	}
	if got, want := o.changes.Unshown(), o.facts.unshownCPUs(nil); got != want && !o.forked {
		return fmt.Errorf("the count of unshown CPUs is %d, but %d CPUs are unshown", got, want)
	}
	if o.facts.report == nil {
		return nil
	}
	o.compute()
	return o.checkWorlds()
}

func (f *facts) checkStages() error {
	for uid, p := range f.pods.byUID {
		if p.uid != uid {
			return fmt.Errorf("pod %s is stored under %s", p.uid, uid)
		}
		if p.stage == nowhere {
			return fmt.Errorf("pod %s is stored, but its stage is nowhere", uid)
		}
		if got, want := slices.Contains(f.pods.posted, p), p.stage == posted; got != want {
			return fmt.Errorf("pod %s: in the list of posted pods: %t, by its stage: %t", uid, got, want)
		}
		if got, want := slices.Contains(f.pods.reserved, p), p.stage == reserved; got != want {
			return fmt.Errorf("pod %s: in the list of reserved pods: %t, by its stage: %t", uid, got, want)
		}
		if got, want := f.report.Has(uid), p.stage == reported; f.report != nil && got != want {
			return fmt.Errorf("pod %s: in the report: %t, by its stage: %t", uid, got, want)
		}
		if p.turn > f.pods.turn {
			return fmt.Errorf("pod %s: turn %d, but the last turn is %d", uid, p.turn, f.pods.turn)
		}
	}
	for _, list := range [][]*pod{f.pods.posted, f.pods.reserved} {
		if i := slices.IndexFunc(list, func(p *pod) bool { return f.pods.byUID[p.uid] != p }); i >= 0 {
			return fmt.Errorf("pod %s is in flight, but not counted", list[i].uid)
		}
	}
	if !slices.IsSortedFunc(f.pods.posted, func(a, b *pod) int { return int(a.turn - b.turn) }) {
		return fmt.Errorf("posted pods are not in the order of their turns")
	}
	return nil
}

func (o *outlook) checkWorlds() error {
	fresh := outlook{facts: o.facts, changes: new(ChangeCounter)}
	fresh.facts.holdings = o.facts.holdings.fork()
	fresh.compute()
	for _, pair := range []struct {
		what      string
		got, want *worlds
	}{{"after the posted pods", o.afterPosted(), fresh.afterPosted()}, {"after all pods", o.afterReserved(), fresh.afterReserved()}} {
		if err := sameWorlds(pair.got, pair.want); err != nil {
			return fmt.Errorf("states %s: %w", pair.what, err)
		}
	}
	return nil
}

// sameWorlds returns an error if the two sets of states differ, or have different likeliest states.
func sameWorlds(got, want *worlds) error {
	if len(got.all) != len(want.all) || got.why != want.why {
		return fmt.Errorf("%d cached, %d computed from scratch", len(got.all), len(want.all))
	}
	for i := range got.all {
		if err := got.all[i].state.Check(); err != nil {
			return err
		}
		same := func(w world) bool { return w.state.Equal(got.all[i].state) }
		if !slices.ContainsFunc(want.all, same) || i == 0 && !same(want.all[0]) {
			return fmt.Errorf("state %d is cached, but not computed from scratch: %+v", i, got.all[i].state.Snapshot())
		}
	}
	return nil
}
