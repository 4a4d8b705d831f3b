package play_test

import (
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/conformance/diff"
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/test/replay/play"
)

// recorded is the folder with the genuine kubelet's decisions.
var recorded = filepath.Join("..", "cases", "testdata", "recorded")

func readAll(t testing.TB) ([]*cases.Case, []*cases.Result) {
	t.Helper()
	in, err := cases.Open(filepath.Join(recorded, "cases.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var cs []*cases.Case
	for c, err := range cases.ReadCases(in) {
		if err != nil {
			t.Fatal(err)
		}
		cs = append(cs, c)
	}
	out, err := cases.Open(filepath.Join(recorded, "results.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var rs []*cases.Result
	for r, err := range cases.ReadResults(out) {
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	if len(cs) != len(rs) || len(cs) == 0 {
		t.Fatalf("%d cases, %d results", len(cs), len(rs))
	}
	return cs, rs
}

// TestRecorded compares the engine with the genuine kubelet's decisions.
func TestRecorded(t *testing.T) {
	cs, want := readAll(t)
	differing, admissions := 0, 0
	for i, c := range cs {
		got, err := play.Run(c, placement.V136)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if want[i].Nondeterministic {
			if !got.Nondeterministic {
				t.Errorf("%s: the choice is random, but the engine does not report it", c.ID)
			}
			continue
		}
		for _, e := range want[i].Events {
			if e.Type == cases.Admit {
				admissions++
			}
		}
		if d := diff.Results(want[i], got); len(d) > 0 {
			if differing++; differing <= 10 {
				t.Errorf("%s", d[0])
			}
		}
	}
	if admissions == 0 {
		t.Error("no admission was compared")
	}
	t.Logf("%d cases, %d admissions, %d cases differ", len(cs), admissions, differing)
}
