package conformance

import (
	"testing"

	"github.com/berth-dev/berth/test/conformance/oracle"
	"github.com/berth-dev/berth/test/replay/cases"
)

// answered returns a result with one admission for each reason.
func answered(reasons ...string) *cases.Result {
	r := &cases.Result{ID: "x"}
	for i, reason := range reasons {
		ok := reason == ""
		r.Events = append(r.Events, cases.EventResult{Event: i, Type: cases.Admit, Admitted: &ok, Reason: reason})
	}
	return r
}

func TestCompare(t *testing.T) {
	random := answered("", "B", "")
	random.Events[1].Random = true
	for _, tt := range []struct {
		name           string
		told           oracle.Told
		got            *cases.Result
		same           int // admissions compared
		differ, chance bool
		defect         oracle.Outcome
	}{
		{"equal", oracle.Told{Result: *answered("", "A"), Outcome: oracle.Finished}, answered("", "A"), 2, false, false, ""},
		{"another reason", oracle.Told{Result: *answered("", "A"), Outcome: oracle.Finished}, answered("", "B"), 1, true, false, ""},
		{"too short", oracle.Told{Result: *answered("", "A"), Outcome: oracle.Finished}, answered(""), 1, true, false, ""},
		{"too long", oracle.Told{Result: *answered(""), Outcome: oracle.Finished}, answered("", "A"), 1, true, false, ""},
		{"chance", oracle.Told{Result: *answered("", "A", "C"), Outcome: oracle.Finished}, random, 1, false, true, ""},
		{"a difference before chance", oracle.Told{Result: *answered("A", "B", ""), Outcome: oracle.Finished}, random, 0, true, false, ""},
		{"a difference after the same chance", oracle.Told{Result: *answered("", "B", "C"), Outcome: oracle.Finished}, random, 2, true, false, ""},
		{"a foreseen hang", oracle.Told{Result: *answered(""), Outcome: oracle.Hung}, answered("", "KubeletDefect"), 1, false, false, oracle.Hung},
		{"an unforeseen crash", oracle.Told{Result: *answered(""), Outcome: oracle.Crashed}, answered("", "A"), 1, true, false, ""},
		{"a defect that is none", oracle.Told{Result: *answered("", "A"), Outcome: oracle.Finished}, answered("", "KubeletDefect"), 1, true, false, ""},
	} {
		c := Compare(&tt.told, tt.got)
		if c.Admissions != tt.same || (len(c.Differences) > 0) != tt.differ || c.Chance != tt.chance || c.Defect != tt.defect {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}
