package claims

import (
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// The models: two pods with claims and one without, on two nodes; the same on one node; and claims
// for which the allocator must see all devices.
var (
	pair   = [Pods]Kind{Claim, Claim, Plain}
	single = [Pods]Kind{Claim, Plain}
	whole  = [Pods]Kind{Whole, Plain}
	mixed  = [Pods]Kind{Whole, Claim, Plain}
	two    = [Nodes]numas{both, both}
	one    = [Nodes]numas{both, 0}
	first  = [Nodes]bool{true}
)

var searches = []Config{
	{Pods: pair, CPUs: two, Devices: two, Budget: Budget{Crashes: 1, Deletions: 1, Denials: 1}},
	{Pods: pair, CPUs: two, Devices: [Nodes]numas{both, 0b01}, Budget: Budget{Deletions: 2, Denials: 1, Slices: 1}},
	{Pods: pair, CPUs: two, Devices: two, Waits: true, Budget: Budget{Crashes: 1, Deletions: 1, Ready: 1}},
	{Pods: pair, CPUs: two, Devices: two, Waits: true, Budget: Budget{Crashes: 1, Denials: 1, Ready: 1, Sharers: 1}},
	{Pods: pair, CPUs: one, Devices: one, Budget: Budget{Crashes: 1, Deletions: 2, Denials: 1, Slices: 1}},
	{Pods: single, CPUs: one, Devices: one, Waits: true, Budget: Budget{Crashes: 1, Deletions: 2, Denials: 1, Ready: 1, Sharers: 1}},
	{Pods: whole, CPUs: two, Devices: [Nodes]numas{0b01, 0b01}, Budget: Budget{Crashes: 1, Deletions: 1, Denials: 1, Slices: 1}},
	{Pods: whole, CPUs: one, Devices: one, Budget: Budget{Crashes: 1, Deletions: 2, Slices: 1}},
	{Pods: mixed, CPUs: two, Devices: [Nodes]numas{both, 0b01}, Waits: true, Budget: Budget{Crashes: 1, Deletions: 1, Denials: 1, Ready: 1}},
	{Pods: mixed, CPUs: [Nodes]numas{both, 0b01}, Devices: two, Budget: Budget{Deletions: 1, Denials: 1, Sharers: 1, Slices: 1}},
	{Pods: pair, CPUs: two, Decides: first, Devices: two, Waits: true, Budget: Budget{Crashes: 1, Deletions: 1, Ready: 1}},
	{Pods: single, CPUs: one, Decides: first, Devices: one, Budget: Budget{Crashes: 1, Deletions: 2, Denials: 1, Slices: 1, Sharers: 1}},
	{Pods: mixed, CPUs: two, Decides: first, Devices: [Nodes]numas{both, 0b01}, Budget: Budget{Deletions: 1, Denials: 1, Slices: 1}},
}

// TestAllRulesKeepEveryPromise is the claim of docs/protocol.md for claims.
func TestAllRulesKeepEveryPromise(t *testing.T) {
	var steps [actions]uint64
	bound, rest, states := 0, 0, 0
	for i, c := range searches {
		c.Rules = AllRules
		r := Check(c)
		if r.Breach != Kept || !r.Complete {
			t.Errorf("search %d, after %d states:\n%v", i, r.States, r)
		}
		bound, rest, states = bound+r.Bound, rest+r.Quiet, states+r.States
		for a := range steps {
			steps[a] += r.Steps[a]
		}
	}
	t.Logf("%d states, %d at rest, %d with two claims in use", states, rest, bound)
	if bound == 0 || rest == 0 {
		t.Errorf("%d states, %d at rest, %d with two claims in use: the search covers too little", states, rest, bound)
	}
	for a, n := range steps {
		if by := Action(a); n == 0 && by != PostFilter {
			t.Errorf("no run has the step %q", by)
		}
	}
}

// off has every rule, switched off separately, and the promise that then breaks.
var off = []struct {
	rule   Rule
	breach Breach
	Config
}{
	{ReserveJudges, Misaligned, Config{Pods: whole, CPUs: two, Devices: [Nodes]numas{0b01, 0b01}}},
	{Steer, LeftStanding, Config{Pods: single, CPUs: one, Devices: one}},
	{ExcludeRefused, ChosenAgain, Config{Pods: whole, CPUs: two, Devices: [Nodes]numas{0b01, 0b01}}},
	{DevicesWake, LeftStanding, Config{Pods: whole, CPUs: one, Devices: [Nodes]numas{0b01, 0}, Budget: Budget{Slices: 2}}},
	{CPUsWake, LeftStanding, Config{Pods: whole, CPUs: one, Devices: one, Budget: Budget{Deletions: 1}}},
	{JudgeAllocated, LeftStanding, Config{Pods: single, CPUs: one, Devices: one, Budget: Budget{Crashes: 1}}},
	{Deallocate, LeftAllocated, Config{Pods: single, CPUs: one, Devices: one, Budget: Budget{Deletions: 1, Denials: 1}}},
	{OneWrite, LeftAllocated, Config{Pods: single, CPUs: one, Devices: one, Budget: Budget{Deletions: 1, Denials: 1, Crashes: 1}}},
	{OnlyUnused, TakenAway, Config{Pods: single, CPUs: one, Devices: one, Budget: Budget{Denials: 1, Sharers: 1}}},
	{TurnAfterWait, LeftStanding, Config{Pods: single, CPUs: one, Devices: one, Waits: true}},
	{JudgeAgain, Misaligned, Config{Pods: single, CPUs: one, Devices: one}},
	{CPUsFollow, LeftStanding, Config{Pods: [Pods]Kind{Claim}, CPUs: one, Decides: first, Devices: [Nodes]numas{0b10}}},
}

// TestEachRuleIsNeeded switches each rule off, and compares the shortest runs that the model then
// finds with testdata; -rewrite writes them. docs/protocol.md names the files.
func TestEachRuleIsNeeded(t *testing.T) {
	var all Rule
	for _, o := range off {
		all |= o.rule
		o.Rules = AllRules.Without(o.rule)
		r := Check(o.Config)
		if r.Breach != o.breach {
			t.Errorf("without %v: %v after %d states, want %v", o.rule, r.Breach, r.States, o.breach)
		}
		golden.File(t, "testdata/"+o.rule.String()+".txt", r.String())
	}
	if all != AllRules {
		t.Errorf("switched off: %v, want %v", all, AllRules)
	}
}
