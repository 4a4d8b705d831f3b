// Package later waits, and calls functions, by a clock that a test may turn.
package later

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Call calls do when d has passed, in a goroutine of its own. The clocks of
// k8s.io/utils/clock/testing call while they hold their lock: a do that asks for the time would
// wait for itself. The timer may be stopped until then.
func Call(c clock.WithDelayedExecution, d time.Duration, do func()) clock.Timer {
	return c.AfterFunc(d, func() { go do() })
}

// Wait returns true when d has passed, and false when ctx has ended before.
func Wait(ctx context.Context, c clock.Clock, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.After(d):
		return true
	}
}
