package page

import (
	"sync"

	"github.com/berth-dev/berth/internal/simulate"
)

// Filling shows how nodes fill. Steps are percentages of arrived pods; InUse is the used part at
// each step, by row.
type Filling struct {
	Steps []int
	InUse [][]uint8
}

// Limits of a Filling. A row is one node of the list, or several consecutive ones.
const (
	maxRows    = 200
	stepOf     = 2 // percent
	maxPercent = 1000
)

// Recorder watches the runs of one seed of an Experiment.
type Recorder struct {
	Seed int64
	// GPUs means that percentages are of GPUs, not of CPUs.
	GPUs bool

	mu  sync.Mutex
	all map[string]*Filling
}

// Watch is the function Watch of an Experiment.
func (r *Recorder) Watch(strategy string, seed int64, c simulate.Cluster) func(percent float64) {
	if seed != r.Seed {
		return nil
	}
	made := &Filling{}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*Filling{}
	}
	r.all[strategy] = made
	had := rowsOf(c, r.GPUs)
	return func(percent float64) {
		if int(percent) >= len(made.Steps)*stepOf {
			made.step(percent, had, rowsOf(c, r.GPUs))
		}
	}
}

// Of returns how the nodes filled under a strategy; nil if this was not recorded.
func (r *Recorder) Of(strategy string) *Filling {
	if r == nil {
		return nil
	}
	return r.all[strategy]
}

// rowsOf returns the free amounts of the rows.
func rowsOf(c simulate.Cluster, gpus bool) []int64 {
	out := make([]int64, min(maxRows, c.Size()))
	for node := range c.Size() {
		out[node*len(out)/c.Size()] += c.Free(node, gpus)
	}
	return out
}

// step records the used parts for all complete steps.
func (f *Filling) step(percent float64, had, free []int64) {
	row := make([]uint8, len(had))
	for i := range row {
		row[i] = uint8(255 * (had[i] - free[i]) / max(1, had[i]))
	}
	for len(f.Steps)*stepOf <= min(int(percent), maxPercent) {
		f.Steps, f.InUse = append(f.Steps, len(f.Steps)*stepOf), append(f.InUse, row)
	}
}
