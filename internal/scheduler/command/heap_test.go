package command

import (
	"runtime"
	"testing"
	"time"
)

func TestGrowthOf(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 40 << 20: 100, 90 << 20: 100, 100 << 20: 90, 112 << 20: 80, 121 << 20: 75, 1 << 40: 75} {
		if got := growthOf(live); got != want {
			t.Errorf("%d MiB: %d, want %d", live>>20, got, want)
		}
	}
}

// TestRestraint: what is in use counts after each collection, and what is set already is not set
// again.
func TestRestraint(t *testing.T) {
	inUse, asked, set := make(chan uint64), make(chan bool), make(chan int, 1)
	live := func() uint64 {
		select {
		case asked <- true:
			return <-inUse
		case <-t.Context().Done():
			return 0
		}
	}
	r := restraint{live: live, set: func(percent int) { set <- percent }}
	r.watch()
	for _, step := range []struct {
		live uint64
		want int // 0: nothing
	}{{1 << 30, 75}, {2 << 30, 0}, {100 << 20, 90}, {1 << 20, 100}, {0, 0}, {1 << 30, 75}} {
		for waits := true; waits; { // a collection that has begun does not find the next marker
			runtime.GC()
			select {
			case <-asked:
				waits = false
			case <-time.After(10 * time.Millisecond):
			}
		}
		inUse <- step.live
		if step.want == 0 {
			continue
		}
		if got := <-set; got != step.want {
			t.Errorf("%d MiB in use: %d percent, want %d", step.live>>20, got, step.want)
		}
	}
}

// TestLiveHeap: the runtime tells it.
func TestLiveHeap(t *testing.T) {
	ballast := make([]byte, 64<<20)
	runtime.GC()
	if got := liveHeap(); got < 64<<20 || got > 1<<30 {
		t.Errorf("%d bytes in use, want 64 MiB and some more", got)
	}
	runtime.KeepAlive(ballast)
}
