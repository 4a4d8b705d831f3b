package vm

import (
	"fmt"
	"math"
	"time"
)

// measured is how long the counter is measured. With readings that lie 1 microsecond apart the rate
// is good to a hundred thousandth.
const measured = 100 * time.Millisecond

// counterArgs tells the guest's kernel how fast its time stamp counter is: under emulation as fast
// as the host's. A kernel that finds out by itself measures against the PIT, and has been seen to
// be wrong by a factor of 18 on a busy host: every time limit in the guest was 18 times too short.
// KVM tells its guests itself.
func counterArgs(kvm bool) string {
	if kvm {
		return ""
	}
	if khz := counterRate(); khz > 0 {
		return fmt.Sprintf(" tsc_early_khz=%d", khz)
	}
	return ""
}

// counterRate measures how often the counter counts in a millisecond, 0 where there is none.
func counterRate() int64 {
	at, count := closest()
	time.Sleep(measured)
	then, later := closest()
	return int64(math.Round(float64(later-count) / (float64(then.Sub(at)) / float64(time.Millisecond))))
}

// closest reads clock and counter at one moment, as nearly as can be: of some tries, the one that
// nothing came into.
func closest() (at time.Time, count uint64) {
	best := time.Duration(math.MaxInt64)
	for range 100 {
		before := time.Now()
		c := counter()
		if took := time.Since(before); took < best {
			best, at, count = took, before, c
		}
	}
	return at, count
}
