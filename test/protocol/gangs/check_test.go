package gangs

import (
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// TestAllRulesKeepEveryPromise is the claim of docs/protocol.md.
func TestAllRulesKeepEveryPromise(t *testing.T) {
	whole, rest, states := 0, 0, 0
	for _, b := range []Budget{
		{}, {Failures: 2, Bindings: 2}, {Bindings: 1, Crashes: 1}, {Failures: 1, Crashes: 2, Deaths: 1}, {Deaths: 2, Bindings: 1}, {Raises: 1, Bindings: 1, Crashes: 1},
		{Failures: 2, Bindings: 2, Crashes: 2, Deaths: 2, Raises: 1},
		{Ordered: 1}, {Ordered: 2}, {Ordered: 2, Failures: 1, Bindings: 2, Crashes: 1}, {Ordered: 1, Deaths: 1, Crashes: 1}, {Ordered: 2, Silences: 1, Bindings: 1, Crashes: 1},
		{Ordered: 1, Raises: 1, Bindings: 1}, {Ordered: 1, Lows: 3, Bindings: 1, Crashes: 1}, {Ordered: 2, Silences: 2, Lows: 2},
		{Lows: 1}, {Lows: 3}, {Lows: 2, Failures: 1, Bindings: 1, Crashes: 1}, {Lows: 3, Failures: 1, Crashes: 1, Deaths: 1},
	} {
		r := Check(Config{Rules: AllRules, Budget: b})
		if r.Breach != Kept {
			t.Fatalf("%+v:\n%v", b, r)
		}
		whole, rest, states = whole+r.Whole, rest+r.Quiet, states+r.States
	}
	t.Logf("%d states, %d at rest, %d in which both gangs were whole once", states, rest, whole)
	if whole == 0 || rest == 0 {
		t.Errorf("%d states, %d at rest, %d with both gangs whole: the search covers too little", states, rest, whole)
	}
}

// off has every rule, switched off separately, and the promise that then breaks.
var off = []struct {
	rule   Rule
	breach Breach
	budget Budget
}{
	{CompleteFirst, Part, Budget{}},
	{FreshObject, Partial, Budget{Raises: 1}},
	{PlanWhole, Part, Budget{}},
	{Barrier, InVain, Budget{Failures: 1}},
	{DropOnFailure, Part, Budget{Failures: 1}},
	{Deadline, Partial, Budget{Bindings: 1}},
	{WholeStays, Torn, Budget{Deaths: 1}},
	{WholeStored, Torn, Budget{Deaths: 1, Crashes: 1}},
	{ClosingMark, Torn, Budget{Deaths: 1, Crashes: 1}},
	{EvictForWhole, Evicted, Budget{Lows: 1}},
	{CountLeaving, Evicted, Budget{Lows: 3}},
	{InOrder, Refused, Budget{Ordered: 1}},
	{KeepRoom, InVain, Budget{Ordered: 1}},
	{WaitEnds, Partial, Budget{Ordered: 1, Silences: 1}},
}

// TestEachRuleIsNeeded switches each rule off, and compares the shortest runs that the model then
// finds with testdata; -rewrite writes them. docs/protocol.md names the files.
func TestEachRuleIsNeeded(t *testing.T) {
	var all Rule
	for _, o := range off {
		all |= o.rule
		r := Check(Config{Rules: AllRules.Without(o.rule), Budget: o.budget, Look: o.breach})
		if r.Breach != o.breach {
			t.Errorf("without %v: %v after %d states, want %v", o.rule, r.Breach, r.States, o.breach)
		}
		golden.File(t, "testdata/"+o.rule.String()+".txt", r.String())
	}
	if all != AllRules {
		t.Errorf("switched off: %v, want %v", all, AllRules)
	}
}
