package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/child"
)

// TestPlace checks the places of processes with nice(1) and nproc(1).
func TestPlace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may raise a priority again")
	}
	whole, err := wholeMachine()
	if err != nil {
		t.Fatal(err)
	}
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for i := 0; one.Count() == 0; i++ {
		if all.IsSet(i) {
			one.Set(i)
		}
	}
	says := func(p place, argv ...string) int {
		c, err := child.Start(child.Spec{Name: argv[0], Argv: argv, Log: filepath.Join(t.TempDir(), "log"), At: p.start})
		if err != nil {
			t.Fatal(err)
		}
		<-c.Done()
		n, err := strconv.Atoi(string(c.LogTail(100)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	last := place{cpus: &one, nice: min(whole.rest.nice+3, 19)}
	if got := says(last, "nice"); got != last.nice {
		t.Errorf("niceness %d, want %d", got, last.nice)
	}
	if got := says(last, "nproc"); got != 1 {
		t.Errorf("%d processors, want 1", got)
	}
	if got := says(whole.scheduler, "nice"); got != whole.rest.nice {
		t.Errorf("niceness %d once that is over, want %d", got, whole.rest.nice)
	}
	if got := says(whole.scheduler, "nproc"); got != all.Count() {
		t.Errorf("%d processors once that is over, want %d", got, all.Count())
	}
}
