package main

import (
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/child"
)

// TestPlace checks the places of processes with nproc(1).
func TestPlace(t *testing.T) {
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for i := 0; one.Count() == 0; i++ {
		if all.IsSet(i) {
			one.Set(i)
		}
	}
	processors := func(p place) int {
		c, err := child.Start(child.Spec{Name: "nproc", Argv: []string{"nproc"}, Log: filepath.Join(t.TempDir(), "log"), At: p.start})
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
	if got := processors(place{&one}); got != 1 {
		t.Errorf("%d processors, want 1", got)
	}
	if got := processors(place{}); got != all.Count() {
		t.Errorf("%d processors once that is over, want %d", got, all.Count())
	}
}
