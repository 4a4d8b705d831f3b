package simulate

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// Experiment lets strategies serve the same loads on the same nodes.
type Experiment struct {
	Nodes      []trace.Node
	Pods       []trace.Pod
	Strategies []Strategy
	// Seeds are those of the draws; each strategy serves each.
	Seeds []int64
	// Arrive is how many times the GPUs of all nodes the pods ask for, or the CPUs where none asks
	// for GPUs; 0 is the list as it is.
	Arrive float64
	// Ground makes the empty cluster of one run; a blind scheduler sees amounts alone. Nil is
	// NewAmounts.
	Ground func(nodes []trace.Node, blind bool) Cluster
	// Record has each run make a Recording.
	Record bool
	// Progress is told about each run that has ended, from any goroutine.
	Progress func(done, all int)
}

// Run plays all strategies with all seeds, on all cores, and returns the runs by strategy, then by
// seed. It is the same for the same Experiment. It ends early, with the cause, where ctx does.
func (e *Experiment) Run(ctx context.Context) ([]Run, error) {
	if trace.AskGPUs(e.Pods) && trace.CapacityOf(e.Nodes, true) == 0 {
		return nil, errors.New("the pods ask for GPUs and no node has one: want nodes with GPUs, or pods without")
	}
	shapes, of := shapes(e.Pods)
	count := make([]int, len(shapes))
	for _, s := range of {
		count[s]++
	}
	load := typical(shapes, count)
	runs := make([]Run, len(e.Strategies)*len(e.Seeds))
	next, done := make(chan int), 0
	var all sync.WaitGroup
	var mu sync.Mutex
	for range min(runtime.GOMAXPROCS(0), len(runs)) {
		all.Go(func() {
			for i := range next {
				runs[i] = e.play(shapes, of, load, &e.Strategies[i/len(e.Seeds)], e.Seeds[i%len(e.Seeds)])
				mu.Lock()
				if done++; e.Progress != nil {
					e.Progress(done, len(runs))
				}
				mu.Unlock()
			}
		})
	}
	for i := range runs {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	return runs, context.Cause(ctx)
}

func (e *Experiment) play(all []Shape, of []int32, load []Typical, s *Strategy, seed int64) Run {
	c := NewAmounts(e.Nodes)
	if e.Ground != nil {
		c = e.Ground(e.Nodes, s.Blind)
	}
	p := newPlayer(c, all, s, load, trace.NewDraw(e.Nodes, e.Pods, e.Arrive, seed))
	r := Run{Strategy: s.Name, Seed: seed}
	capacity := capacityOf(e.Nodes, e.Pods)
	if e.Record {
		p.recorder = newRecorder(c, capacity, seed == e.Seeds[0])
	}
	var seen curves
	r.Figures, seen = p.arrivals(of, capacity)
	r.Curve, r.AlignedCurve = seen.served.curve(), seen.aligned.curve()
	r.Aligned = capacity.aligned(&r.Figures)
	r.Recording = p.recorder.end(load)
	return r
}
