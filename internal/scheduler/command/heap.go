package command

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A heap may grow by mostGrowth before garbage is collected, and by leastPercent of what is in use
// where that is more. Go lets it double: a large cluster's nodes and reports would be paid for
// twice. A small heap goes on doubling, since a collection costs as much as is in use.
const (
	mostGrowth   = 90 << 20
	leastPercent = 75
)

// growthOf returns how many percent a heap may grow when that many bytes are in use.
func growthOf(live uint64) int {
	return int(min(100, max(leastPercent, 100*mostGrowth/max(live, 1))))
}

// restrainHeap keeps growthOf from now on, unless whoever runs the program says something else in
// GOGC.
func restrainHeap() {
	if os.Getenv("GOGC") == "" {
		r := restraint{live: liveHeap, set: func(percent int) { debug.SetGCPercent(percent) }}
		r.watch()
	}
}

// restraint sets by how many percent the heap may grow, after every collection.
type restraint struct {
	live func() uint64
	set  func(percent int)
	last int
}

// watch waits for the next collection: it finds the marker, which nobody uses.
func (r *restraint) watch() {
	type marker struct{ _ *marker }
	runtime.AddCleanup(new(marker), func(r *restraint) {
		if percent := growthOf(r.live()); percent != r.last {
			r.last = percent
			r.set(percent)
		}
		r.watch()
	}, r)
}

// liveHeap is how many bytes were in use by the last collection.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
