package trial

import (
	"context"
	"iter"
	"time"
)

// Every comes at once, and then every so often until ctx ends.
func Every(ctx context.Context, d time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		clock := time.NewTicker(d)
		defer clock.Stop()
		for now := time.Now(); yield(now); {
			select {
			case <-ctx.Done():
				return
			case now = <-clock.C:
				if ctx.Err() != nil { // both were ready
					return
				}
			}
		}
	}
}

// Until asks every so often until done, and reports whether that was before ctx ended.
func Until(ctx context.Context, d time.Duration, done func() bool) bool {
	for range Every(ctx, d) {
		if done() {
			return true
		}
	}
	return false
}
