package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResume: a call continues with the results of the same flags and programs, except for half a
// pair. It does not touch other results.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	scheduler := filepath.Join(dir, "berth-scheduler")
	call := func(program string, flags string) *bench {
		if err := os.WriteFile(scheduler, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		b := &bench{verb: verbCluster, testbed: testbed{options: options{out: dir, scheduler: scheduler}, journal: journal{out: io.Discard}}, result: result{Options: flags}}
		if err := b.resume(); err != nil {
			t.Fatal(err)
		}
		return b
	}
	key := runKey{Nodes: 5, Load: loadPinned, Profile: profileChart}
	first := call("one", "-x")
	if first.result.has(key, 10) {
		t.Error("the first call has a pair")
	}
	for i, who := range []contestant{stock, berth, stock} {
		key.Scheduler, key.Pair = who, i/2
		first.result.Runs = append(first.result.Runs, runResult{runKey: key, Pods: 10, Settled: 1, Told: 1, PerSecond: 1, SchedulerCPU: 1, PeakMemory: 1})
	}
	first.result.Filter = []filterResult{{Nodes: 5, There: 10, Scheduler: stock, Pods: podsNew, Runs: 2}}
	if err := first.keep(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		program, flags string
		pairs          int
	}{{"one", "-x", 1}, {"two", "-x", 0}, {"one", "-y", 0}} {
		b := call(tc.program, tc.flags)
		key.Pair = 0
		if got := b.result.has(key, 10); got != (tc.pairs > 0) || len(b.result.Runs) != 2*tc.pairs || b.result.has(key, 11) {
			t.Errorf("%v: the pair is there: %t, and %d runs are", tc, got, len(b.result.Runs))
		}
		if got := b.result.filterOf(5, 10, stock, podsNew) >= 0; got != (tc.pairs > 0) {
			t.Errorf("%v: single cycles are there: %t", tc, got)
		}
		if b.result.Options != tc.flags || b.result.Calls != 1+tc.pairs {
			t.Errorf("%v: flags %s, call %d", tc, b.result.Options, b.result.Calls)
		}
	}
	if err := os.WriteFile(first.file(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := (&bench{verb: verbCluster, testbed: testbed{options: first.options, journal: journal{out: io.Discard}}, result: result{Options: "-x"}}).resume()
	if err == nil || !strings.Contains(fmt.Sprint(err), first.file()) {
		t.Errorf("an incomplete file: %v, want its name", err)
	}
}

// TestRunInTheFile: the names of a run's fields, and their order, do not change, because later
// calls read these files.
func TestRunInTheFile(t *testing.T) {
	const text = `{"nodes":1,"load":"l","profile":"p","scheduler":"berth","pair":2,"bound":3,"pods":4,"refused":5,` +
		`"settledPerSecond":6,"toldPerSecond":24,"events":25,"boundPerSecond":7,"acknowledgedP50":8,"acknowledgedP99":9,"schedulerMicrosecondsPerPod":10,"serverMicrosecondsPerPod":11,` +
		`"peakMemory":12,"idleMemory":13,"attempts":14,"searches":15,"nowhere":23,"secondRounds":16,"nodesPerAttempt":17,"filterMilliseconds":18,"scoreMilliseconds":19,` +
		`"promises":{"a":20},"reports":21,"requests":{"b":22},"loadAverage":"x"}`
	var r runResult
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(&r); err != nil || string(got) != text {
		t.Errorf("%s, %v\nwant %s", got, err, text)
	}
}
