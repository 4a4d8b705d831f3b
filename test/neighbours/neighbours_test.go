package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	"github.com/berth-dev/berth/internal/demo"
)

func TestMain(m *testing.M) {
	if code, ok := demo.Role(os.Args[1:], os.Stdin, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// from is the folder with the neighbours' own files, beside the repository.
const from = "../../../shared/neighbours"

// TestAJobOfVolcanosUnderItsOwnController: Volcano's vc-controller-manager with its own definitions
// makes the pods of its example, and Berth places them.
func TestAJobOfVolcanosUnderItsOwnController(t *testing.T) {
	program, err := filepath.Abs(filepath.Join(from, "bin", "vc-controller-manager.xz"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("Volcano's own controller is not there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for _, name := range []string{"volcano-example/job/test-job", "je11"} {
		var out bytes.Buffer
		if err := play(ctx, &options{from: from, controller: byVolcano, only: name, each: true}, &out); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		if !bytes.Contains(out.Bytes(), []byte("ok volcano "+name)) {
			t.Errorf("%s did not run:\n%s", name, &out)
		}
	}
}

// TestReadExpectation reads words as EXPECT.tsv has them.
func TestReadExpectation(t *testing.T) {
	for text, want := range map[string]expectation{
		"reject":                             {rejected: true, phases: []batch.JobPhase{"Running"}},
		"accept":                             {phases: []batch.JobPhase{"Running"}},
		"Volcano: pending (task b needs 2)":  {pending: true, phases: []batch.JobPhase{"Running"}},
		"... Failed; the failed pod is kept": {phases: []batch.JobPhase{"Failed"}},
		"Pending Running; ConfigMap a-svc; a volume":  {phases: []batch.JobPhase{"Pending", "Running"}},
		"Pending while gated, Running afterwards":     {phases: []batch.JobPhase{"Pending", "Running"}},
		"Pending Running ... Restarting (when a pod)": {phases: []batch.JobPhase{"Pending", "Running", "Restarting"}},
	} {
		got := readExpectation(text)
		if got.rejected != want.rejected || got.pending != want.pending || !slices.Equal(got.phases, want.phases) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}
