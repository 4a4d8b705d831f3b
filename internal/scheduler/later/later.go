// Package later waits and calls functions with a clock that tests can control.
package later

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Call calls the function do when d has passed, in its own goroutine, unless the returned timer is
// stopped first. The goroutine is necessary because the clocks of k8s.io/utils/clock/testing hold
// their lock during the call, so a function that asks for the time would block.
func Call(c clock.WithDelayedExecution, d time.Duration, do func()) clock.Timer {
	return c.AfterFunc(d, func() { go do() })
}

// Wait returns true after d, or false if ctx ends first.
func Wait(ctx context.Context, c clock.Clock, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.After(d):
		return true
	}
}
