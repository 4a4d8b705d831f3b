package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// Experiment lets several strategies place the same loads on the same nodes.
type Experiment struct {
	Nodes      []trace.Node
	Pods       []trace.Pod
	Strategies []Strategy
	// Seeds are the seeds of the random order of pods and nodes. Each strategy runs once with each
	// seed.
	Seeds []int64
	// Times configures when pods arrive and end. If it is nil, pods arrive one after another, and
	// no pod ends.
	Times *trace.Times
	// Arrive, if not nil, changes the draw of a run in which no pod ends (trace.NewDraw).
	Arrive func(*trace.Draw)
	// Ground creates the cluster for one run. If blind is set, the scheduler sees only amounts. If
	// Ground is nil, a run uses NewAmounts.
	Ground func(nodes []trace.Node, blind bool) Cluster
	// Start has the pods that already run when a run begins. It is nil if there are none. If it is
	// not nil, set Ground to Start.Ground.
	Start *Start
	// If Unused is set, each run in which no pod ends reports which part of the free resources the
	// load could use.
	Unused bool
	// Watch, if not nil, is called at the beginning of each run in which no pod ends. It returns a
	// function, or nil. The run calls this function after each arrival with the requests of all
	// pods so far, in percent of the nodes' GPUs (or CPUs, if no pod asks for GPUs). Several
	// goroutines call Watch.
	Watch func(strategy string, seed int64, c Cluster) func(percent float64)
	// Progress, if not nil, receives the number of completed runs, including the fractions of runs
	// in progress, and the number of all runs. Several goroutines call it, one at a time.
	Progress func(done float64, all int)
}

// Run runs all strategies with all seeds, in GOMAXPROCS goroutines. It returns the runs in the
// order of Strategies, and for each strategy in the order of Seeds. Identical Experiments have
// identical results. If ctx ends, Run returns the cause of ctx.
func (e *Experiment) Run(ctx context.Context) ([]Run, error) {
	if trace.AskGPUs(e.Pods) && trace.CapacityOf(e.Nodes, true) == 0 {
		return nil, errors.New("the pods ask for GPUs and no node has one: want nodes with GPUs, or pods without GPUs")
	}
	for i := range e.Strategies {
		s, want := &e.Strategies[i], ""
		switch {
		case s.Defrag <= 0:
			continue
		case s.Blind:
			want = "a strategy that considers NUMA nodes"
		case e.Ground == nil:
			want = "a cluster with NUMA nodes"
		case e.Times == nil:
			want = "pods that end"
		default:
			continue
		}
		return nil, fmt.Errorf("strategy %s moves pods: want %s", s.Name, want)
	}
	shapes, of := shapes(e.Pods)
	count := make([]int, len(shapes))
	for i, s := range of {
		count[s] += e.Pods[i].Count()
	}
	load := typical(shapes, count)
	shapes, stand := e.Start.shapes(shapes)
	runs, errs := make([]Run, len(e.Strategies)*len(e.Seeds)), make([]error, len(e.Strategies)*len(e.Seeds))
	next, parts := make(chan int), parts{of: make([]float64, len(runs)), tell: e.Progress}
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(runs)) {
		all.Go(func() {
			for i := range next {
				r := play{e, shapes, of, stand, load, &e.Strategies[i/len(e.Seeds)], e.Seeds[i%len(e.Seeds)]}
				runs[i], errs[i] = r.play(ctx, func(part float64) { parts.note(i, part) })
				parts.note(i, 1)
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
	return runs, cmp.Or(context.Cause(ctx), errors.Join(errs...))
}

// parts has the completed fraction of each run.
type parts struct {
	mu   sync.Mutex
	of   []float64
	tell func(done float64, all int)
}

func (p *parts) note(run int, part float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[run] = part
	if p.tell == nil {
		return
	}
	done := 0.0
	for _, part := range p.of {
		done += part
	}
	p.tell(done, len(p.of))
}

type play struct {
	*Experiment
	shapes   []Shape
	of       []int32
	stand    []int32 // shapes of the pods of the Start
	load     []Typical
	strategy *Strategy
	seed     int64
}

func (r *play) play(ctx context.Context, part func(float64)) (Run, error) {
	ground, out := NewAmounts(r.Nodes), Run{Strategy: r.strategy.Name, Seed: r.seed}
	if r.Ground != nil {
		ground = r.Ground(r.Nodes, r.strategy.Blind)
	}
	if r.Times != nil {
		d, err := trace.NewTimedDraw(r.Nodes, r.Pods, *r.Times, r.seed)
		if err != nil {
			return out, err
		}
		p := newPlayer(ground, r.shapes, r.strategy, r.load, &trace.Draw{Order: d.Order, Rand: d.Rand})
		c := newClock(p, d, r.Experiment, r.of)
		c.stand(r.Start, r.stand)
		c.run(ctx, part)
		c.meter.result(&out)
		return out, nil
	}
	p := newPlayer(ground, r.shapes, r.strategy, r.load, trace.NewDraw(r.Nodes, r.Pods, r.seed, r.Arrive))
	capacity := capacityOf(r.Nodes, r.Pods)
	if r.Watch != nil {
		p.watch = r.Watch(r.strategy.Name, r.seed, ground)
	}
	var seen curves
	p.stood, p.first = r.Start.served(), int32(r.Start.count())
	out.Figures, seen = p.arrivals(r.of, capacity)
	out.Curve, out.AlignedCurve = seen.served.curve(), seen.aligned.curve()
	out.Aligned = capacity.aligned(&out.Figures) + capacity.aligned(&p.stood)
	if r.Experiment.Unused {
		out.Unused = unusedOf(ground, capacity, r.load)
	}
	return out, nil
}
