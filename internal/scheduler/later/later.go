// Package later calls functions by a clock that a test may turn.
package later

import (
	"time"

	"k8s.io/utils/clock"
)

// Call calls do when d has passed, in a goroutine of its own. The clocks of
// k8s.io/utils/clock/testing call while they hold their lock: a do that asks for the time would
// wait for itself. The timer may be stopped until then.
func Call(c clock.WithDelayedExecution, d time.Duration, do func()) clock.Timer {
	return c.AfterFunc(d, func() { go do() })
}
