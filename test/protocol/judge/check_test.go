package judge

import (
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// TestAllRulesKeepEveryPromise is the claim of docs/protocol.md for shadow mode.
func TestAllRulesKeepEveryPromise(t *testing.T) {
	right, refused, rest, states := 0, 0, 0, 0
	for _, b := range []Budget{
		{},
		{Starts: 1, Breaks: 1},
		{Starts: 2},
		{Ends: 1, Breaks: 1},
		{Starts: 1, Ends: 1},
		{Deletes: 1, Others: 1},
		{Starts: 1, Deletes: 1},
		{Losses: 1},
	} {
		r := Check(Config{Rules: AllRules, Budget: b})
		if r.Breach != Kept || !r.Complete {
			t.Fatalf("%+v:\n%v", b, r)
		}
		right, refused, rest, states = right+r.Right, refused+r.Refused, rest+r.Quiet, states+r.States
	}
	older := Check(Config{Rules: AllRules, Budget: Budget{Starts: 2}, Older: true})
	if older.Breach != Kept || older.Right > 0 {
		t.Errorf("%d were judged by the reports of an older agent:\n%v", older.Right, older)
	}
	t.Logf("%d states, %d at rest, %d counted as right, %d as refused rightly", states, rest, right, refused)
	if right == 0 || refused == 0 || rest == 0 {
		t.Errorf("%d states at rest, %d counted as right, %d as refused rightly: the search covers too little", rest, right, refused)
	}
}

// off has every rule, switched off separately, and the promise that then breaks.
var off = []struct {
	rule   Rule
	breach Breach
	budget Budget
}{
	{ReportBefore, Hindsight, Budget{}},
	{ListsHaveNoOrder, Hindsight, Budget{Breaks: 1}},
	{KnowStart, AcrossStart, Budget{Starts: 1}},
	{RestartDoubts, AcrossStart, Budget{Starts: 1}},
	{AnswerWaits, AcrossStart, Budget{Starts: 1}},
	{WrittenAfter, AcrossStart, Budget{Starts: 1}},
	{SameCompany, CalledWrong, Budget{Ends: 1}},
	{GoneUnseen, Unanswered, Budget{Deletes: 1}},
	{ManagersOnly, CalledWrong, Budget{Others: 1}},
	{CountOnce, CountedTwice, Budget{Breaks: 1}},
	{TimeOut, LeftOpen, Budget{Losses: 1}},
}

// TestEachRuleIsNeeded switches each rule off, and compares the shortest runs that the model then
// finds with testdata; -rewrite writes them. docs/protocol.md names the files.
func TestEachRuleIsNeeded(t *testing.T) {
	var all Rule
	for _, o := range off {
		all |= o.rule
		r := Check(Config{Rules: AllRules.Without(o.rule), Budget: o.budget})
		if r.Breach != o.breach {
			t.Errorf("without %v: %v after %d states, want %v", o.rule, r.Breach, r.States, o.breach)
		}
		golden.File(t, "testdata/"+o.rule.String()+".txt", r.String())
	}
	if all != AllRules {
		t.Errorf("switched off: %v, want %v", all, AllRules)
	}
}
