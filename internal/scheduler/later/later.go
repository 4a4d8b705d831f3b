// Package later waits and calls functions with a clock that tests can control.
package later

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Call calls do after d, in its own goroutine. The clocks of k8s.io/utils/clock/testing call with
// their lock held, and a do that asks for the time would block. The timer may be stopped before.
func Call(c clock.WithDelayedExecution, d time.Duration, do func()) clock.Timer {
	return c.AfterFunc(d, func() { go do() })
}

// Wait returns true after d, and false if ctx ends before.
func Wait(ctx context.Context, c clock.Clock, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.After(d):
		return true
	}
}
