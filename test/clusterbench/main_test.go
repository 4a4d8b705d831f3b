package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// The test binary is its own control plane.
func init() {
	if len(os.Args) == 3 && os.Args[1] == verbPlane {
		if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// TestWrites runs the write generator on a few nodes. A report of 256 CPUs and 60 pods must be
// smaller than 16 KiB.
func TestWrites(t *testing.T) {
	dir := t.TempDir()
	args := []string{"writes", "-nodes=12", "-length=3s", "-heartbeat=500ms", "-out=" + dir}
	if err := run(t.Context(), args, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "writes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	w := r.Writes
	if w.CPUs != 256 || w.Pods != 60 {
		t.Errorf("%d CPUs and %d pods, want 256 and 60", w.CPUs, w.Pods)
	}
	const limit = 16 << 10
	if w.SentBytes < 1000 || w.SentBytes > limit || w.StoredBytes < w.SentBytes || w.StoredBytes > limit {
		t.Errorf("a report is %d bytes as sent and %d as stored, want at most %d", w.SentBytes, w.StoredBytes, limit)
	}
	if len(w.Phases) != 3 || w.Phases[0].Heartbeats.Count != 0 || w.Phases[1].Heartbeats.Count == 0 {
		t.Errorf("phases: %+v, want three, with heartbeats from the second on", w.Phases)
	}
	// Twelve reports may fit into existing pages of the database, so it need not grow.
	if w.EmptyStorage <= 0 || w.FullStorage < w.EmptyStorage {
		t.Errorf("the database: %v, then %v bytes", w.EmptyStorage, w.FullStorage)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{
		{"-nodes=0"}, {"-nodes=5,4"}, {"-nodes=x"}, {"-pods=1"}, {"-pairs=-1"}, {"-pods=2,2"}, {"-pairs=5,1"}, {"-filter-pods=5"}, {"-filter-runs=-1"}, {"-warm-up=1"}, {"-agents=never"}, {"-loads=heavy"}, {"-profiles=own"},
	} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	o, err := parseOptions([]string{"-nodes=500,5000,15000", "-pairs=5,1"}, io.Discard)
	if err != nil || len(o.nodes) != 3 || o.nodes[1] != 5000 || of(o.pairs, 0) != 5 || of(o.pairs, 2) != 1 || of(o.pods, 2) != 10000 {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestGangsBesideTheSamePods(t *testing.T) {
	run := func(load string, pair int, settled float64) runResult {
		return runResult{runKey: runKey{Nodes: 5, Load: load, Scheduler: berth, Pair: pair}, Settled: settled, PerSecond: 1, SchedulerCPU: 1}
	}
	got := compareGangs([]runResult{run(loadPinned, 0, 10), run(loadGangs, 0, 9), run(loadGangs, 1, 4), run(loadPinned, 1, 5), run(loadPinned, 2, 7)})
	if len(got) != 1 || got[0].Pairs != 2 || fmt.Sprint(got[0].Settled.Values) != "[0.9 0.8]" {
		t.Errorf("%+v, want two pairs, of 0.9 and 0.8", got)
	}
	for i := range 2 * gangSize {
		pod, single := newPod(loadGangs, i), newPod(loadPinned, i)
		if fmt.Sprint(pod.Spec) != fmt.Sprint(single.Spec) || pod.Annotations[wire.GangAnnotation] != fmt.Sprintf("gang-%05d", i/gangSize) {
			t.Errorf("pod %d is %+v, want one like %+v in a gang", i, pod, single)
		}
	}
}
