package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// split is which processors are whose; nil stands for all of them.
//
// Nodes and control plane stand for other machines. On the schedulers' processors they take time from them, now more and now
// less, and runs of the same scheduler differ by a factor of three.
type split struct{ scheduler, rest *unix.CPUSet }

// splitCPUs gives the schedulers half of this process's processors. This process itself keeps to the others from now on.
func splitCPUs() (split, error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return split{}, fmt.Errorf("processors: %w", err)
	}
	if all.Count() < 2 {
		return split{}, errors.New("processors: one cannot be shared out; leave -apart away")
	}
	s := split{new(unix.CPUSet), new(unix.CPUSet)}
	for i, given := 0, 0; given < all.Count(); i++ {
		switch {
		case !all.IsSet(i):
			continue
		case given < all.Count()/2:
			s.scheduler.Set(i)
		default:
			s.rest.Set(i)
		}
		given++
	}
	runtime.GOMAXPROCS(s.rest.Count())
	return s, confine(s.rest)
}

// confine keeps every thread of this process to the processors; those to come follow those that make them.
func confine(cpus *unix.CPUSet) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, cpus); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("processors: %w", err)
		}
	}
	return nil
}

// on calls start on the processors, so that the process it starts has them, and finds as many when it looks.
func on(cpus *unix.CPUSet, start func() error) error {
	if cpus == nil {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	if err := unix.SchedSetaffinity(0, cpus); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	return errors.Join(start(), unix.SchedSetaffinity(0, &before))
}
