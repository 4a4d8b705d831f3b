package scheduler

import (
	"maps"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
)

const cycleKey fwk.StateKey = Name

// cycle is what the plugin keeps for one attempt to place one pod.
type cycle struct {
	ledger.Candidate
	// plugin is that of the pod's profile.
	plugin *Plugin
	// trials are the assumptions of a dry run, by node.
	trials map[string]ledger.Trial
	// board is what nodes said to the pod's shape; nil when the pod is to be asked for by itself.
	board *board
	// begun is when the attempt began, as since has it.
	begun time.Duration
	// patient says that the pod still waits for certainty, until patientUntil.
	patient      bool
	patientUntil time.Time
	// refused: it is the node that refused in Reserve or Bind, and not something that may do so for
	// ever.
	refused bool
	// again: Reserve refused what Filter had merely estimated; another node may do at once.
	again bool
	// nominated is the node that is kept for the pod; "" for none.
	nominated string
	// number is the pod's place in the order of Reserve; 0 before.
	number uint64
}

// Clone implements fwk.StateData: what AddPod and RemovePod change is copied.
func (c *cycle) Clone() fwk.StateData {
	copied := *c
	copied.trials = maps.Clone(c.trials)
	for name, t := range copied.trials {
		copied.trials[name] = t.Clone()
	}
	return &copied
}

// cycleOf returns the plugin's state; nil for a pod that passes untouched.
func cycleOf(state fwk.CycleState) *cycle {
	data, err := state.Read(cycleKey)
	if err != nil {
		return nil
	}
	c, _ := data.(*cycle)
	return c
}

// change edits the trial of a node.
func (c *cycle) change(nodeName string, edit func(*ledger.Trial)) {
	if c.trials == nil {
		c.trials = map[string]ledger.Trial{}
	}
	t := c.trials[nodeName]
	edit(&t)
	c.trials[nodeName] = t
}

// recall returns what the node said to the pod's shape, or another of the same standing did, if it
// still holds.
func (c *cycle) recall(n *node, staleAfter time.Duration) (word, bool) {
	if c.board == nil || c.dry() || !n.trusted(c.begun, staleAfter) {
		return 0, false
	}
	beat, standing := n.Load()
	if w, ok := c.common(n, beat, standing); ok {
		return w, true
	}
	if n.number >= len(c.board.words) {
		return 0, false
	}
	w := word(c.board.words[n.number].Load())
	return w, w.saying() != saysNothing && w.beat() == beat && n.Follows(c.Created)
}

// common returns what a node of the same standing said to the pod's shape.
func (c *cycle) common(n *node, beat uint32, standing ledger.StateID) (word, bool) {
	w := c.board.commonOf(standing)
	if w.saying() == saysNothing || !n.Follows(c.Created) || n.Count() != beat {
		return 0, false
	}
	return w.at(beat), true
}

// note puts a word on the board.
func (c *cycle) note(n *node, w word) {
	if n.number < len(c.board.words) {
		c.board.words[n.number].Store(uint64(w))
	}
}

// ask asks a node under the assumptions of the cycle.
func (c *cycle) ask(n *node) ledger.Answer {
	t := c.trials[n.name]
	return n.Ask(ledger.Question{Candidate: &c.Candidate, Trial: &t})
}

// dry says whether the cycle makes assumptions.
func (c *cycle) dry() bool { return len(c.trials) > 0 }
