package grow

import (
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// TestAllRulesKeepEveryPromise is the claim of docs/protocol.md for resizes on nodes that obey.
func TestAllRulesKeepEveryPromise(t *testing.T) {
	grown, shrunk, rest, states := 0, 0, 0, 0
	for _, b := range []Budget{
		{Wishes: 3, Leaves: 1},
		{Wishes: 3, Losses: 1, Crashes: 1},
		{Wishes: 2, Crashes: 2, Losses: 2, Leaves: 1},
		{Wishes: 3, Restarts: 2, Slips: 1},
		{Wishes: 3, Restarts: 1, OldNews: 2, Leaves: 1},
		{Wishes: 3, Crowds: 1, Crashes: 1, Leaves: 1},
		{Wishes: 3, Begins: 2, Restarts: 1},
		{Wishes: 3, Begins: 1, Crashes: 1, Slips: 1, Leaves: 1},
		{Wishes: 3, Losses: 1, Crashes: 1, Restarts: 1, Slips: 1, OldNews: 1, Crowds: 1, Leaves: 1},
	} {
		for size := range uint8(2) {
			r := Check(Config{Rules: AllRules, Budget: b, Size: size + 1})
			if r.Breach != Kept || !r.Complete {
				t.Fatalf("%+v from %d:\n%v", b, size+1, r)
			}
			grown, shrunk, rest, states = grown+r.Grown, shrunk+r.Shrunk, rest+r.Quiet, states+r.States
		}
	}
	t.Logf("%d states, %d at rest, grown in %d, shrunk in %d", states, rest, grown, shrunk)
	if grown == 0 || shrunk == 0 || rest == 0 {
		t.Errorf("%d states at rest, grown in %d, shrunk in %d: the search covers too little", rest, grown, shrunk)
	}
}

// off has every rule, switched off separately, and the promise that then breaks.
var off = []struct {
	rule   Rule
	breach Breach
	size   uint8
	budget Budget
}{
	{KubeletFirst, LeftStanding, 1, Budget{Wishes: 1, Crowds: 1}},
	{SettledFirst, Outgrown, 2, Budget{Wishes: 3}},
	{CountShown, MadeToWait, 2, Budget{Wishes: 1}},
	{KeepBoth, Outgrown, 1, Budget{Wishes: 1, Losses: 1}},
	{FenceResizes, Outgrown, 1, Budget{Wishes: 1, Crashes: 1}},
	{TryAgain, LeftStanding, 1, Budget{Wishes: 1, Leaves: 1}},
	{DecisionFirst, Outgrown, 1, Budget{Wishes: 1}},
	{ReadBackFrees, TwiceGiven, 2, Budget{Wishes: 1, Slips: 1}},
	{NewerOnly, MadeToWait, 2, Budget{Wishes: 1, OldNews: 1}},
	{BeginDecided, Outgrown, 1, Budget{Wishes: 1, Begins: 1}},
	{CarryAmounts, LeftStanding, 1, Budget{Wishes: 1, Begins: 1}},
	{RememberDecisions, MadeToWait, 2, Budget{Wishes: 1, Restarts: 1}},
}

// TestEachRuleIsNeeded switches each rule off, and compares the shortest runs that the model then
// finds with testdata; -rewrite writes them. docs/protocol.md names the files.
func TestEachRuleIsNeeded(t *testing.T) {
	var all Rule
	for _, o := range off {
		all |= o.rule
		r := Check(Config{Rules: AllRules.Without(o.rule), Budget: o.budget, Size: o.size})
		if r.Breach != o.breach {
			t.Errorf("without %v: %v after %d states, want %v", o.rule, r.Breach, r.States, o.breach)
		}
		golden.File(t, "testdata/"+o.rule.String()+".txt", r.String())
	}
	if all != AllRules {
		t.Errorf("switched off: %v, want %v", all, AllRules)
	}
}
