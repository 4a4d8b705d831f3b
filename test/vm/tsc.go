package vm

import (
	"fmt"
	"math"
	"time"
)

// measured is the time of the measurement. With readings 1 microsecond apart the error of the rate
// is 1:100,000.
const measured = 100 * time.Millisecond

// counterArgs returns the kernel argument with the rate of the time stamp counter. An emulated
// machine has the host's rate. A kernel that measures it against the PIT can be wrong by a factor
// of 18 on a busy host; then every time limit in the guest is 18 times too short. KVM passes the
// rate itself.
func counterArgs(kvm bool) string {
	if kvm {
		return ""
	}
	if khz := counterRate(); khz > 0 {
		return fmt.Sprintf(" tsc_early_khz=%d", khz)
	}
	return ""
}

// counterRate measures the counter's ticks per millisecond, 0 without a counter.
func counterRate() int64 {
	at, count := closest()
	time.Sleep(measured)
	then, later := closest()
	return int64(math.Round(float64(later-count) / (float64(then.Sub(at)) / float64(time.Millisecond))))
}

// closest reads clock and counter several times, and returns the pair with the shortest time in
// between.
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
