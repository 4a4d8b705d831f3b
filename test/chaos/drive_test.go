package main

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/test/trial"
)

// TestWhatEndsIsStartedAgain: when a process ends by itself, chaos starts it again, continues, and
// names the process in its last lines.
func TestWhatEndsIsStartedAgain(t *testing.T) {
	var out bytes.Buffer
	c := &cluster{dir: t.TempDir(), procs: map[string]*process{}}
	d := &driver{cluster: c, observer: &observer{tally: tally{}}, book: &book{out: &out}, out: &out, exits: map[string]int{}}
	starts := map[string]int{}
	for _, name := range []string{apiServerName, rivalName, "agent-n0", "scheduler-0"} {
		p := &process{name: name, Part: trial.NewPart(func() (*child.Process, error) {
			script := "echo corrupted; exit 1"
			if starts[name]++; starts[name] > 1 {
				script = "exec sleep 600"
			}
			return child.Start(child.Spec{Name: name, Argv: []string{"/bin/sh", "-c", script}, Log: filepath.Join(c.dir, name+".log")})
		})}
		if err := c.add(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range c.procs {
		<-p.Process().Done()
	}
	if err := d.settleDue(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := d.settleDue(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, p := range c.procs {
			p.Kill()
		}
	}()
	twice := map[string]int{apiServerName: 2, rivalName: 2, "agent-n0": 2, "scheduler-0": 2}
	if !maps.Equal(starts, twice) {
		t.Errorf("started %v, want each twice", starts)
	}
	if total(d.exits) != len(twice) || d.exits[rivalName] != 1 {
		t.Errorf("counted %v, want each once", d.exits)
	}
	d.table()
	for _, want := range []string{fmt.Sprint(d.exits), "note: ", "rival ended by itself: exit status 1: corrupted"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the last lines do not have %q:\n%s", want, out.String())
		}
	}
}
