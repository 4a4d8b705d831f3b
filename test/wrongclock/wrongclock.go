// Package wrongclock is a clock for child processes of tests. A file contains the difference
// between this clock and the real time. The parent process makes the clock jump by writing the
// file.
package wrongclock

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Clock differs from the real time by the duration in its file. Only child processes use it.
type Clock struct {
	clock.RealClock
	by   atomic.Int64 // nanoseconds
	file string
}

var _ clock.WithDelayedExecution = (*Clock)(nil)

// poll is how often the file is read. A signal would be faster, but would end a child that does not
// handle signals yet.
const poll = 100 * time.Millisecond

// Follow returns a clock that follows the file. Without a file the clock is right.
func Follow(file string) *Clock {
	c := &Clock{file: file}
	c.read()
	go func() {
		for range time.Tick(poll) {
			c.read()
		}
	}()
	return c
}

func (c *Clock) read() {
	data, err := os.ReadFile(c.file)
	if err != nil {
		return
	}
	if by, err := strconv.ParseInt(string(data), 10, 64); err == nil {
		c.by.Store(by)
	}
}

// Now implements clock.PassiveClock. Jumps also make durations wrong, because the times have no
// monotonic reading of Go's time package.
func (c *Clock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.by.Load())) }

// Since implements clock.PassiveClock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// File returns the path of a process's clock in the cluster's directory.
func File(dir, process string) string { return filepath.Join(dir, process+".clock") }

// Set makes the clock that follows the file wrong: ahead by the duration, or behind if it is
// negative. It replaces the file atomically.
func Set(file string, by time.Duration) error {
	if err := os.WriteFile(file+".new", fmt.Append(nil, int64(by)), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
