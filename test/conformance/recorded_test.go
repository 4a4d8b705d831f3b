package conformance

import (
	"encoding/json"
	"testing"

	"github.com/berth-dev/berth/internal/cases"
	"github.com/berth-dev/berth/test/conformance/oracle"
)

// chance holds recorded cases that are not marked as random but are: in seed-1685, event 6, container c0 reuses one of
// the two devices of i0, and the kubelet takes the first that a Go map yields.
var chance = map[string]bool{"seed-1685": true}

// TestOracleAgreesWithRecording proves the oracle: what the managers decide here is what was recorded of them.
func TestOracleAgreesWithRecording(t *testing.T) {
	want := map[string]*cases.Result{}
	for r, err := range readAll(t, "results.ndjson.gz", cases.ReadResults) {
		if err != nil {
			t.Fatal(err)
		}
		want[r.ID] = r
	}
	lines := caseLines(t)
	pool := Pool{Command: Self(roleVariable, "oracle"), Workers: 2}
	count, admissions, random := 0, 0, 0
	err := pool.Run(lines, func(a Answer) bool {
		if a.Err != nil {
			t.Errorf("line %d: %v", a.Index+1, a.Err)
			return true
		}
		var told Told
		if err := json.Unmarshal(a.Reply, &told); err != nil || told.Error != "" || told.Outcome != oracle.Finished {
			t.Errorf("line %d: %s: %v: %s", a.Index+1, told.Outcome, err, told.Error)
			return true
		}
		w := want[told.Result.ID]
		if w == nil {
			t.Errorf("line %d: no recorded result", a.Index+1)
			return true
		}
		count++
		if w.Nondeterministic {
			random++
		} else {
			admissions += admitted(w)
		}
		if d := cases.Diff(w, &told.Result); d != nil && !chance[w.ID] {
			t.Errorf("%d differences, the first: %v", len(d), d[0])
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cases (%d of them random, left out), %d admissions compared", count, random, admissions)
	if count != len(want) || admissions == 0 {
		t.Errorf("compared %d of %d recorded cases", count, len(want))
	}
}

// admitted counts the admissions of a result, readmissions included.
func admitted(r *cases.Result) int {
	n := 0
	for i := range r.Events {
		if r.Events[i].Admitted != nil {
			n++
		}
		n += len(r.Events[i].Readmit)
	}
	return n
}
