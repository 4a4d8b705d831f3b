package replay_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/internal/cases"
	"github.com/berth-dev/berth/internal/replay"
	"github.com/berth-dev/berth/placement"
)

// shared returns a file of the shared material, and skips the test where there is none.
func shared(t testing.TB, path ...string) string {
	t.Helper()
	root := os.Getenv("BERTH_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	file := filepath.Join(append([]string{root}, path...)...)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("the recorded cases are not here (BERTH_SHARED): %v", err)
	}
	return file
}

func readAll(t testing.TB) ([]*cases.Case, []*cases.Result) {
	t.Helper()
	in, err := cases.Open(shared(t, "kubelet-cases", "cases.ndjson.gz"))
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
	out, err := cases.Open(shared(t, "kubelet-cases", "results.ndjson.gz"))
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

// TestRecorded compares the engine with what the genuine kubelet decided.
func TestRecorded(t *testing.T) {
	cs, want := readAll(t)
	differing, admissions := 0, 0
	for i, c := range cs {
		got, err := replay.Run(c, placement.V136)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if want[i].Nondeterministic {
			if !got.Nondeterministic {
				t.Errorf("%s: chance decides, and the engine does not say so", c.ID)
			}
			continue
		}
		for _, e := range want[i].Events {
			if e.Type == cases.Admit {
				admissions++
			}
		}
		if d := cases.Diff(want[i], got); len(d) > 0 {
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
