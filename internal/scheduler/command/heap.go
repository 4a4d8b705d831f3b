package command

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A heap may grow before garbage is collected. Go lets it double: a large cluster's nodes and
// reports would be paid for twice. Here it grows by the least as long as collecting takes at most
// a fair share of the scheduler's work, and by more where collecting would take more. For large
// heaps the bounds are percent of what is in use. For small ones they are bytes, so that these go
// on doubling: they cost little memory.
const (
	leastGrowth, leastPercent = 36 << 20, 33
	mostGrowth, mostPercent   = 90 << 20, 75
	// fairShare is what collecting may take. In a scheduler that spreads pods by default it may
	// take sparedShare: there Berth spares more work than that, and binds so many more pods a
	// second that their garbage would take more memory than kube-scheduler alone needs.
	fairShare, sparedShare = 0.04, 0.5
)

// growthOf returns how many percent a heap may grow when that many bytes are in use. cost is the
// share of the work that collecting took when it grew by last percent, and fair what it may take:
// twice the growth costs half as much.
func growthOf(live uint64, last int, cost, fair float64) int {
	percent := func(growth uint64, percent int) int {
		return min(100, max(percent, int(100*growth/max(live, 1))))
	}
	wanted := int(min(100, float64(last)*cost/fair))
	return max(percent(leastGrowth, leastPercent), min(percent(mostGrowth, mostPercent), wanted))
}

// restrainHeap keeps growthOf from now on, unless whoever runs the program says something else in
// GOGC.
func restrainHeap(fair float64) {
	if os.Getenv("GOGC") == "" {
		r := restraint{read: readHeap, set: func(percent int) { debug.SetGCPercent(percent) }, fair: fair, last: 100}
		r.watch()
	}
}

// heap is what the runtime counts.
type heap struct {
	// live are the bytes that were in use at the last collection.
	live uint64
	// worked and collected are the seconds of all processors since the start, for the program
	// itself and for the garbage collector; time are the seconds since the start.
	worked, collected, time float64
}

// costSince returns the share of the work that collecting has taken since an earlier count. Work
// counts as at least a tenth of a processor: a scheduler that rests does not save on collections.
func (h *heap) costSince(then *heap) float64 {
	worked, collected := h.worked-then.worked, h.collected-then.collected
	return collected / max(worked+collected, (h.time-then.time)/10, 1e-9)
}

// restraint sets by how many percent the heap may grow, after every collection.
type restraint struct {
	read func() heap
	set  func(percent int)
	fair float64
	last int
	was  heap
}

// watch waits for the next collection: it finds the marker, which nobody uses.
func (r *restraint) watch() {
	type marker struct{ _ *marker }
	runtime.AddCleanup(new(marker), func(r *restraint) {
		is := r.read()
		if percent := growthOf(is.live, r.last, is.costSince(&r.was), r.fair); percent != r.last {
			r.last = percent
			r.set(percent)
		}
		r.was = is
		r.watch()
	}, r)
}

// readHeap asks the runtime, which counts time whenever it has collected.
func readHeap() heap {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/cpu/classes/user:cpu-seconds"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"},
	}
	metrics.Read(s)
	return heap{
		live: s[0].Value.Uint64(), worked: s[1].Value.Float64(), collected: s[2].Value.Float64(),
		time: s[3].Value.Float64() / float64(runtime.GOMAXPROCS(0)),
	}
}
