package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// place has the processors on which a process runs; nil for those of this process.
type place struct{ cpus *unix.CPUSet }

// split has the places of the schedulers and of the other processes.
//
// Nodes and control plane would run on other machines. On the schedulers' processors they take a
// varying amount of time from them, and runs of the same scheduler differ by a factor of three.
type split struct{ scheduler, rest place }

// apart gives the schedulers half of this process's processors. From now on this process uses only
// the other half.
func (s *split) apart() error {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	if all.Count() < 2 {
		return errors.New("processors: -apart needs at least two")
	}
	s.scheduler.cpus, s.rest.cpus = new(unix.CPUSet), new(unix.CPUSet)
	for i, given := 0, 0; given < all.Count(); i++ {
		switch {
		case !all.IsSet(i):
			continue
		case given < all.Count()/2:
			s.scheduler.cpus.Set(i)
		default:
			s.rest.cpus.Set(i)
		}
		given++
	}
	runtime.GOMAXPROCS(s.rest.cpus.Count())
	return eachThread(func(id int) error { return unix.SchedSetaffinity(id, s.rest.cpus) })
}

// eachThread calls do for every thread of this process. New threads inherit from their creators.
func eachThread(do func(id int) error) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("threads: %w", err)
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := do(id); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("thread %d: %w", id, err)
		}
	}
	return nil
}

// start calls do in the place. The process that do starts is in the place, and sees only its
// processors.
func (p place) start(do func() error) (err error) {
	if p.cpus == nil {
		return do()
	}
	runtime.LockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	if err := take(p.cpus); err != nil {
		return err
	}
	defer func() {
		// If a thread cannot go back, it stays locked and ends with its goroutine.
		back := take(&before)
		if back == nil {
			runtime.UnlockOSThread()
		}
		err = errors.Join(err, back)
	}()
	return do()
}

// take moves the calling thread to the processors.
func take(cpus *unix.CPUSet) error {
	if err := unix.SchedSetaffinity(0, cpus); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	return nil
}
