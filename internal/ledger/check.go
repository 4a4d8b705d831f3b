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
		return fmt.Errorf("%d exclusive CPUs are stored for reported pods that the API has not shown: want %d", got, want)
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
			return fmt.Errorf("pod %s is stored under the UID %s: want its own UID", p.uid, uid)
		}
		if p.stage == nowhere {
			return fmt.Errorf("pod %s is stored with the stage \"nowhere\": want another stage, or no entry", uid)
		}
		if got, want := slices.Contains(f.pods.posted, p), p.stage == posted; got != want {
			return fmt.Errorf("pod %s %s in the list of posted pods, contrary to its stage", uid, isOrNot(got))
		}
		if got, want := slices.Contains(f.pods.reserved, p), p.stage == reserved; got != want {
			return fmt.Errorf("pod %s %s in the list of reserved pods, contrary to its stage", uid, isOrNot(got))
		}
		if got, want := f.report.Has(uid), p.stage == reported; f.report != nil && got != want {
			return fmt.Errorf("pod %s %s in the report, contrary to its stage", uid, isOrNot(got))
		}
		if p.turn > f.pods.turn {
			return fmt.Errorf("pod %s: turn %d: want at most the last turn, %d", uid, p.turn, f.pods.turn)
		}
	}
	for _, list := range [][]*pod{f.pods.posted, f.pods.reserved} {
		if i := slices.IndexFunc(list, func(p *pod) bool { return f.pods.byUID[p.uid] != p }); i >= 0 {
			return fmt.Errorf("pod %s is in a list of pods in flight, but is not the stored pod of this UID", list[i].uid)
		}
	}
	if !slices.IsSortedFunc(f.pods.posted, func(a, b *pod) int { return int(a.turn - b.turn) }) {
		return fmt.Errorf("posted pods are not in the order of their turns")
	}
	return nil
}

func isOrNot(is bool) string {
	if is {
		return "is"
	}
	return "is not"
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
		return fmt.Errorf("%d cached states, wait reason %q: want %d and %q, the recomputed values", len(got.all), got.why.String(), len(want.all), want.why.String())
	}
	for i := range got.all {
		if err := got.all[i].state.Check(); err != nil {
			return err
		}
		same := func(w world) bool { return w.state.Equal(got.all[i].state) }
		switch {
		case !slices.ContainsFunc(want.all, same):
			return fmt.Errorf("cached state %d: %+v: want one of the recomputed states", i, got.all[i].state.Snapshot())
		case i == 0 && !same(want.all[0]):
			return fmt.Errorf("cached state 0: %+v: want the likeliest of the recomputed states", got.all[0].state.Snapshot())
		}
	}
	return nil
}
