package trial

import (
	"context"
	"iter"
	"time"
)

// Every yields at once, and then at every interval d until ctx ends.
func Every(ctx context.Context, d time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		clock := time.NewTicker(d)
		defer clock.Stop()
		for now := time.Now(); yield(now); {
			select {
			case <-ctx.Done():
				return
			case now = <-clock.C:
				if ctx.Err() != nil { // select chose the timer although ctx has ended
					return
				}
			}
		}
	}
}

// Until calls done at every interval d until it returns true, and reports whether it did before ctx
// ended.
func Until(ctx context.Context, d time.Duration, done func() bool) bool {
	for range Every(ctx, d) {
		if done() {
			return true
		}
	}
	return false
}
