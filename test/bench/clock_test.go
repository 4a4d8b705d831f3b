package bench

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain prints how busy the machine is, in the format of benchmark files.
func TestMain(m *testing.M) {
	fmt.Println("load-before:", load())
	code := m.Run()
	fmt.Println("load-after:", load())
	os.Exit(code)
}

// load is the load average over 1, 5 and 15 minutes.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

// threadTime is the CPU time of this thread. The work of other threads does not count, although it
// displaces data from the caches.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// timed calls f n times in a row, and returns the CPU time of one call in ns.
func timed(n int, f func()) float64 {
	begin := threadTime()
	for range n {
		f()
	}
	return float64(threadTime()-begin) / float64(n)
}

// turns calls f until the benchmark's time is over, and at least nine times. f measures two or more
// subjects in turn and returns a figure for each.
func turns(b *testing.B, f func() []float64) series {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	f() // warms up
	var s series
	for b.Loop() {
		s = append(s, f())
	}
	for len(s) < 9 {
		s = append(s, f())
	}
	b.ReportMetric(0, "ns/op") // the time of a turn means nothing
	b.ReportMetric(float64(len(s)), "turns")
	return s
}

// series has figures by turn, then by subject.
type series [][]float64

// median returns the median of a subject's figures.
func (s series) median(thing int) float64 {
	return s.medianOf(func(turn []float64) float64 { return turn[thing] })
}

// ratio returns the median over the turns of the first subject's figure divided by the second's.
func (s series) ratio(first, second int) float64 {
	return s.medianOf(func(turn []float64) float64 { return turn[first] / turn[second] })
}

func (s series) medianOf(f func([]float64) float64) float64 {
	var all []float64
	for _, turn := range s {
		all = append(all, f(turn))
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func TestMedian(t *testing.T) {
	s := series{{1, 2}, {9, 3}, {4, 4}, {100, 1}}
	if got := s.median(0); got != 6.5 {
		t.Errorf("median %v: want 6.5", got)
	}
	if got := s.ratio(0, 1); got != 2 {
		t.Errorf("ratio %v: want 2, the middle of 0.5, 1, 3 and 100", got)
	}
}

// atMost fails if a figure exceeds the limit. Limits are so far above the figures of
// docs/performance.md that noise cannot explain the excess.
func atMost(b *testing.B, what string, got, limit float64) {
	b.Helper()
	if got > limit {
		b.Errorf("%s is %.3g: want at most %.3g", what, got, limit)
	}
}

// noAllocations fails if f allocates. The benchmark's own count would be the allocations of a whole
// turn.
func noAllocations(b *testing.B, f func()) {
	b.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		b.Errorf("%v allocations: want none", n)
	}
	b.ReportAllocs()
	b.ReportMetric(0, "B/op")
	b.ReportMetric(0, "allocs/op")
}
