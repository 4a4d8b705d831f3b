package ledger

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Explain says why the likeliest state refuses the request, and whether there was a report to explain from.
func (n *Node) Explain(r *placement.Request) (placement.Refusal, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return placement.Refusal{}, false
	}
	n.compute()
	if n.full.uncertain() {
		return placement.Refusal{}, false
	}
	return placement.Explain(n.full.all[0].state, r), true
}

// Snapshot returns the likeliest state after everything in flight, and whether there is one.
func (n *Node) Snapshot() (placement.Snapshot, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return placement.Snapshot{}, false
	}
	n.compute()
	if n.full.uncertain() {
		return placement.Snapshot{}, false
	}
	return n.full.all[0].state.Snapshot(), true
}

// FreeCPUs returns the CPUs that the likeliest state could give away exclusively.
func (n *Node) FreeCPUs() topology.CPUSet {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return topology.CPUSet{}
	}
	n.compute()
	if n.full.uncertain() {
		return topology.CPUSet{}
	}
	shared, reserved := n.full.all[0].state.SharedCPUs(), n.full.model.ReservedCPUs()
	return shared.AndNot(&reserved)
}

// Census counts the pods of a node that are on their way.
type Census struct{ Reserved, Posted, Afloat, Ending int }

// Census counts.
func (n *Node) Census() Census {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := Census{Reserved: len(n.reserved), Posted: len(n.posted)}
	for _, p := range n.pods {
		if p.stage == afloatStage {
			c.Afloat++
		}
		if p.ending {
			c.Ending++
		}
	}
	return c
}

// Check says which invariant of the account does not hold: lists and stages agree, no trial has left a trace, turns ascend,
// every possible state is sound, and what was cached equals what is computed anew.
func (n *Node) Check() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.checkStages(); err != nil {
		return err
	}
	if n.report == nil {
		return nil
	}
	n.compute()
	return n.checkWorlds()
}

func (n *Node) checkStages() error {
	for uid, p := range n.pods {
		if p.uid != uid {
			return fmt.Errorf("pod %s is filed under %s", p.uid, uid)
		}
		if p.apart {
			return fmt.Errorf("pod %s is set apart, and nobody asks what would be without it", uid)
		}
		if got, want := slices.Contains(n.posted, p), p.stage == postedStage; got != want {
			return fmt.Errorf("pod %s: among the posted %t, its stage says %t", uid, got, want)
		}
		if got, want := slices.Contains(n.reserved, p), p.stage == reservedStage; got != want {
			return fmt.Errorf("pod %s: among the reserved %t, its stage says %t", uid, got, want)
		}
		if got, want := n.report.Has(uid), p.stage == landedStage; n.report != nil && got != want {
			return fmt.Errorf("pod %s: reported %t, its stage says %t", uid, got, want)
		}
	}
	if !slices.IsSortedFunc(n.posted, func(a, b *pod) int { return int(a.turn - b.turn) }) {
		return fmt.Errorf("posted pods are not in the order of their turns")
	}
	return nil
}

func (n *Node) checkWorlds() error {
	fresh := Node{report: n.report, pods: n.pods, posted: n.posted, reserved: n.reserved, changes: new(ChangeCounter)}
	fresh.compute()
	for _, pair := range []struct {
		what      string
		got, want *worlds
	}{{"after the posted pods", &n.base, &fresh.base}, {"after all pods", &n.full, &fresh.full}} {
		if err := sameWorlds(pair.got, pair.want); err != nil {
			return fmt.Errorf("states %s: %w", pair.what, err)
		}
	}
	return nil
}

// sameWorlds compares sets of states; the likeliest comes first in both.
func sameWorlds(got, want *worlds) error {
	if len(got.all) != len(want.all) || got.why != want.why {
		return fmt.Errorf("%d cached, %d computed anew", len(got.all), len(want.all))
	}
	for i := range got.all {
		if err := got.all[i].state.Check(); err != nil {
			return err
		}
		same := func(w world) bool { return sameState(w.state, got.all[i].state) }
		if !slices.ContainsFunc(want.all, same) || i == 0 && !same(want.all[0]) {
			return fmt.Errorf("state %d is cached, but not computed anew: %+v", i, got.all[i].state.Snapshot())
		}
	}
	return nil
}
