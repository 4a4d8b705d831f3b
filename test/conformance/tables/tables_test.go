package tables

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// errLeftOut means that a call cannot be repeated with the engine, because no kubelet outside its
// tests is in that state.
var errLeftOut = errors.New("left out")

// replays has the functions that repeat recorded calls with the engine.
var replays = map[string]func(in, out json.RawMessage) error{
	"take":           as(take),
	"cpuHints":       as(cpuHints),
	"allocateCPUs":   as(allocateCPUs),
	"memoryHints":    as(memoryHints),
	"allocateMemory": as(allocateMemory),
	"releaseMemory":  as(releaseMemory),
	"deviceHints":    as(deviceHints),
	"takeDevices":    as(takeDevices),
}

// as decodes a call's input and result.
func as[I, O any](f func(*I, *O) error) func(in, out json.RawMessage) error {
	return func(in, out json.RawMessage) error {
		var i I
		var o O
		if err := json.Unmarshal(in, &i); err != nil {
			return err
		}
		if err := json.Unmarshal(out, &o); err != nil {
			return err
		}
		return f(&i, &o)
	}
}

// TestKubeletTables records the calls and results of the kubelet's own tests, and repeats the calls
// with the engine. Compiling those tests takes minutes, so only make conformance-tables runs it.
func TestKubeletTables(t *testing.T) {
	record := os.Getenv("BERTH_TABLES")
	if record == "" {
		t.Skip("run make conformance-tables")
	}
	f, err := os.Open(record)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	made, left := map[string]int{}, map[string]int{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<26)
	for s.Scan() {
		var c call
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		replay := replays[c.Call]
		if replay == nil {
			continue
		}
		switch err := replay(c.In, c.Out); {
		case errors.Is(err, errLeftOut):
			left[c.Call]++
		case err != nil:
			t.Errorf("%s: %v\n%.3000s", c.Call, err, s.Bytes())
		default:
			made[c.Call]++
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("agreed: %v; left out: %v", made, left)
	for name := range replays {
		if made[name] == 0 {
			t.Errorf("%s: never recorded", name)
		}
	}
}

// TestRecord runs the kubelet's tests and writes the calls to the file that BERTH_TABLES names.
func TestRecord(t *testing.T) {
	to := os.Getenv("BERTH_TABLES_OUT")
	if to == "" {
		t.Skip("run make conformance-tables")
	}
	record, err := Record(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(record, to); err != nil {
		t.Fatal(err)
	}
}
