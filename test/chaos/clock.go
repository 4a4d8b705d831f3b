package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// wrongClock is a process's clock that is wrong by as much as a file says. It lives in children
// alone.
type wrongClock struct {
	clock.RealClock
	by   atomic.Int64 // nanoseconds
	file string
}

var _ clock.WithDelayedExecution = (*wrongClock)(nil)

// clockPoll is how often the file is read. A signal would be prompter and would end a child that
// does not listen yet.
const clockPoll = 100 * time.Millisecond

// followClock returns a clock that follows the file. One that is not there says nothing.
func followClock(file string) *wrongClock {
	c := &wrongClock{file: file}
	c.read()
	go func() {
		for range time.Tick(clockPoll) {
			c.read()
		}
	}()
	return c
}

func (c *wrongClock) read() {
	data, err := os.ReadFile(c.file)
	if err != nil {
		return
	}
	if by, err := strconv.ParseInt(string(data), 10, 64); err == nil {
		c.by.Store(by)
	}
}

// Now implements clock.PassiveClock. All durations between its moments are as wrong as the clock: a
// process that is given this one has no other to turn to, such as the monotonic one of Go's time
// package.
func (c *wrongClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.by.Load())) }

// Since implements clock.PassiveClock.
func (c *wrongClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func clockFile(dir, process string) string { return filepath.Join(dir, process+".clock") }

// jump sets the clock of a process forward, or with a negative duration back. One that is down has
// it wrong when it is up.
func (c *cluster) jump(p *process, by time.Duration) error {
	p.wrong += by
	return writeWhole(clockFile(c.dir, p.name), fmt.Append(nil, int64(p.wrong)))
}
