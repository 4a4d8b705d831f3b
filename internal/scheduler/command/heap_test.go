package command

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// patience is how long a test waits for what comes at once.
const patience = time.Minute

func TestGrowthOf(t *testing.T) {
	const MiB = 1 << 20
	for _, c := range []struct {
		live       uint64
		last       int
		cost, fair float64
		want       int
	}{
		{0, 100, 0, fairShare, 100}, {36 * MiB, 100, 0, fairShare, 100}, {90 * MiB, 100, 1, fairShare, 100}, {60 * MiB, 100, 0, fairShare, 60}, // small
		{100 * MiB, 75, 1, fairShare, 90}, {112 * MiB, 75, 1, fairShare, 80}, {121 * MiB, 75, 1, fairShare, 75}, {1 << 40, 75, 1, fairShare, 75}, // dear
		{100 * MiB, 75, 0, fairShare, 36}, {121 * MiB, 75, 0, fairShare, 33}, {1 << 40, 75, 0, fairShare, 33}, // for nothing
		{1 << 30, 75, 0.02, fairShare, 37}, {1 << 30, 37, 0.04, fairShare, 37}, {1 << 30, 37, 0.08, fairShare, 74}, {1 << 30, 33, 0.06, fairShare, 49}, // by its cost
		{1 << 30, 75, math.Inf(1), fairShare, 75},
		{1 << 30, 33, 0.25, sparedShare, 33}, {90 * MiB, 75, 0.25, sparedShare, 40}, {1 << 30, 75, 0.5, sparedShare, 75}, {36 * MiB, 100, 0, sparedShare, 100}, // spreads by default
	} {
		if got := growthOf(c.live, c.last, c.cost, c.fair); got != c.want {
			t.Errorf("%d MiB, %d percent at a cost of %v where %v is fair: %d, want %d", c.live>>20, c.last, c.cost, c.fair, got, c.want)
		}
	}
}

func TestCostSince(t *testing.T) {
	then := heap{worked: 10, collected: 1, time: 100}
	for _, c := range []struct {
		now  heap
		want float64
	}{
		{heap{worked: 13, collected: 2, time: 105}, 0.25},
		{heap{worked: 10, collected: 2, time: 200}, 0.1}, // it rested, for 100 s
		{then, 0},
	} {
		if got := c.now.costSince(&then); got != c.want {
			t.Errorf("%+v: %v, want %v", c.now, got, c.want)
		}
	}
}

// TestRestraint: what is in use counts after each collection, and what is set already is not set
// again.
func TestRestraint(t *testing.T) {
	counts, asked, set := make(chan heap), make(chan bool), make(chan int, 1)
	read := func() heap {
		select {
		case asked <- true:
			return <-counts
		case <-t.Context().Done():
			return heap{}
		}
	}
	r := restraint{read: read, set: func(percent int) { set <- percent }, fair: fairShare, last: 100}
	r.watch()
	for i, step := range []struct {
		is   heap
		want int // 0: nothing
	}{
		{heap{live: 1 << 30, worked: 1, collected: 1}, 75},
		{heap{live: 2 << 30, worked: 2, collected: 2}, 0},
		{heap{live: 100 << 20, worked: 3, collected: 3}, 90},
		{heap{live: 1 << 20, worked: 4, collected: 4}, 100},
		{heap{worked: 5, collected: 5}, 0},
		{heap{live: 1 << 30, worked: 5.99, collected: 5.01}, 33},
	} {
		for waits := true; waits; { // a collection that has begun does not find the next marker
			runtime.GC()
			select {
			case <-asked:
				waits = false
			case <-time.After(10 * time.Millisecond):
			}
		}
		counts <- step.is
		if step.want == 0 {
			continue
		}
		if got := <-set; got != step.want {
			t.Errorf("step %d: %d percent, want %d", i, got, step.want)
		}
	}
}

// TestReadHeap: the runtime says it.
func TestReadHeap(t *testing.T) {
	before := readHeap()
	ballast := make([]byte, 64<<20)
	got := readHeap()
	for begun := time.Now(); got.time-before.time < 0.05 && time.Since(begun) < patience; got = readHeap() {
		runtime.GC()
	}
	if got.live < 64<<20 || got.live > 1<<30 {
		t.Errorf("%d bytes in use, want 64 MiB and some more", got.live)
	}
	if got.worked <= before.worked || got.collected <= before.collected || got.time-before.time < 0.04 || got.time-before.time > 100 {
		t.Errorf("%+v, before %+v: want more of each, and some 50 ms", got, before)
	}
	runtime.KeepAlive(ballast)
}
