package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// place describes where a process runs on this machine: its processors (nil for all) and its
// niceness.
type place struct {
	cpus *unix.CPUSet
	nice int
}

// split has the places of the schedulers and of the other processes.
//
// Nodes and control plane would run on other machines. On the schedulers' processors they take a
// varying amount of time from them, and runs of the same scheduler differ by a factor of three.
type split struct{ scheduler, rest place }

// behind is the niceness of the other processes above that of the schedulers.
const behind = 15

// wholeMachine gives all processes the place of this process.
func wholeMachine() (split, error) {
	// The system call returns 20 less the niceness (getpriority(2)).
	rank, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return split{}, fmt.Errorf("priority: %w", err)
	}
	p := place{nice: 20 - rank}
	return split{p, p}, nil
}

// first gives the schedulers precedence: it lowers the priority of this process, and of all
// processes that it starts from now on.
func (s *split) first() error {
	s.rest.nice = min(s.rest.nice+behind, 19)
	err := eachThread(func(id int) error { return unix.Setpriority(unix.PRIO_PROCESS, id, s.rest.nice) })
	if err == nil {
		err = s.scheduler.start(func() error { return nil }) // only root may raise a priority again
	}
	return err
}

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
	runtime.LockOSThread()
	rank, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		return fmt.Errorf("processors: %w", err)
	}
	before := place{cpus: &cpus, nice: 20 - rank}
	if err := p.take(); err != nil {
		return err
	}
	defer func() {
		// If a thread cannot go back, it stays locked and ends with its goroutine.
		back := before.take()
		if back == nil {
			runtime.UnlockOSThread()
		}
		err = errors.Join(err, back)
	}()
	return do()
}

// take moves the calling thread to the place.
func (p place) take() error {
	if p.cpus != nil {
		if err := unix.SchedSetaffinity(0, p.cpus); err != nil {
			return fmt.Errorf("processors: %w", err)
		}
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, p.nice); err != nil {
		return fmt.Errorf("priority: niceness %d: %w; -first is for root", p.nice, err)
	}
	return nil
}
