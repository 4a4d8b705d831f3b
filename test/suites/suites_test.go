package main

import (
	"slices"
	"strings"
	"testing"
)

// TestRewritten: files create their scheduler with package under, and import each other's copies.
func TestRewritten(t *testing.T) {
	got := rewritten(`package util

import (
	"k8s.io/kubernetes/pkg/scheduler"
	testutils "k8s.io/kubernetes/test/integration/util"
	"k8s.io/kubernetes/test/integration/framework"
)

func f() { scheduler.New(ctx, scheduler.WithProfiles(p), scheduler.WithParallelism(1)) }
`)
	for _, want := range []string{
		"\t\"github.com/berth-dev/berth/test/suites/under\"\n\t\"k8s.io/kubernetes/pkg/scheduler\"\n",
		`"github.com/berth-dev/berth/test/suites/kubernetes/util"`, `"k8s.io/kubernetes/test/integration/framework"`,
		"under.New(ctx, under.WithProfiles(p), scheduler.WithParallelism(1))", "var _ scheduler.Option",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s\nwant it to contain %s", got, want)
		}
	}
	const other = "package x\n\nfunc g() { scheduler.New() }\n"
	if got := rewritten(other); got != other {
		t.Errorf("a file without kube-scheduler became %s", got)
	}
}

// TestDiffering: differing returns the smallest subtests that pass only with kube-scheduler. Tests
// that fail with both, or pass only with Berth, do not differ.
func TestDiffering(t *testing.T) {
	stock := read([]byte("--- FAIL: TestA (1.00s)\n    --- PASS: TestA/one (0.50s)\n    --- FAIL: TestA/two (0.50s)\n--- PASS: TestB (0.10s)\n    --- PASS: TestB/x (0.10s)\n--- PASS: TestC (0.10s)\n--- SKIP: TestD (0.00s)\n"))
	berth := read([]byte("--- FAIL: TestA (1.00s)\n    --- FAIL: TestA/one (0.50s)\n    --- PASS: TestA/two (0.50s)\n--- FAIL: TestB (0.10s)\n    --- FAIL: TestB/x (0.10s)\n--- PASS: TestC (0.10s)\n"))
	if got, want := differing(stock, berth), []string{"TestA/one", "TestB/x"}; !slices.Equal(got, want) {
		t.Errorf("%v differ, want %v", got, want)
	}
}

// TestChoose: packages are named by their path below test/integration/scheduler.
func TestChoose(t *testing.T) {
	all := func() []string {
		return []string{"scheduler", "scheduler/batch", "scheduler/serving", "scheduler/podgroup/admission"}
	}
	for _, tc := range []struct{ wanted, want, err string }{
		{"", "scheduler,scheduler/batch,scheduler/podgroup/admission", ""},
		{".,podgroup/admission", "scheduler,scheduler/podgroup/admission", ""},
		{"bath", "", `-packages: "bath": want some of scheduler, batch, podgroup/admission`},
	} {
		var wanted []string
		if tc.wanted != "" {
			wanted = strings.Split(tc.wanted, ",")
		}
		got, err := choose(all(), wanted)
		if strings.Join(got, ",") != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%q: %v, %v; want %s, %s", tc.wanted, got, err, tc.want, tc.err)
		}
	}
}
