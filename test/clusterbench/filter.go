package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// filterResult is how long the search for a node took for one pinned pod, in milliseconds, as the
// scheduler's metric has it: PreFilter, Filter and Score of all plugins, on as many nodes as each
// scheduler looks at as it is shipped.
type filterResult struct {
	Nodes     int        `json:"nodes"`
	Scheduler contestant `json:"scheduler"`
	// Pods is podsNew when no pod like it has been there before, so that nothing is remembered;
	// else "repeated".
	Pods string `json:"pods"`
	// There is how many pinned pods ran on the nodes before, Runs how many runs the samples are of.
	There int `json:"there"`
	Runs  int `json:"runs"`
	// Milliseconds are the samples.
	Milliseconds []float64 `json:"milliseconds"`
	// Retried is how many pods took more than one cycle; they are left out.
	Retried     int    `json:"retried"`
	LoadAverage string `json:"loadAverage"`
}

// podsNew are pods of a shape that is new.
const podsNew = "new"

// filterWarmUp is how many pods of each sort of a run are not counted: they warm the scheduler up.
const filterWarmUp = 5

// filter measures cycles one by one, on a cluster that runs pinned pods already, except for runs
// that have been measured before.
func (b *bench) filter(kinds []*nodeKind, size int) error {
	nodes, pods, ready := b.options.nodes[size], of(b.options.pods, size), false
	for i := range of(b.options.filterRuns, size) {
		for _, who := range inTurn(i) {
			if at := b.result.filterOf(nodes, pods, who, podsNew); at >= 0 && b.result.Filter[at].Runs > i {
				continue
			}
			if !ready {
				if err := b.fill(kinds, size); err != nil {
					return fmt.Errorf("fill the nodes: %w", err)
				}
				ready = true
			}
			if err := b.filterRun(nodes, pods, who); err != nil {
				return err
			}
			if err := b.keep(); err != nil {
				return err
			}
		}
	}
	if !ready {
		return nil
	}
	if err := b.hold(true); err != nil {
		return err
	}
	return b.deletePods()
}

// fill makes Berth bind the load of pinned pods.
func (b *bench) fill(kinds []*nodeKind, size int) error {
	if b.stage.size != size || b.stage.pair == 0 { // else what the last pair ran on will do
		if err := b.enter(kinds, stage{size, 1}); err != nil {
			return err
		}
	}
	defer b.took("single cycles: pods that are there", time.Now())
	pods := of(b.options.pods, size)
	if err := b.createPods(loadPinned, b.options.profiles[0], pods); err != nil {
		return err
	}
	s, err := b.lead(berth)
	if err != nil {
		return err
	}
	defer s.Stop()
	b.fleet.tally.reset()
	if err := b.fleet.await(b.ctx, runLimit, func(t *tally) bool { return len(t.bound) >= pods }); err != nil {
		return err
	}
	return b.fleet.quiet(b.ctx, pods)
}

// lead starts a scheduler and makes it the leader once it has read the cluster.
func (b *bench) lead(who contestant) (*sched, error) {
	s, err := b.startScheduler(who, b.options.profiles[0])
	if err != nil {
		return nil, err
	}
	err = b.hold(true)
	if err == nil {
		err = s.settle(b.ctx)
	}
	if err == nil {
		err = b.hold(false)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// filterRun places pods one by one. A run that breaks off leaves nothing.
func (b *bench) filterRun(nodes, there int, who contestant) error {
	defer b.took("single cycles", time.Now())
	if err := b.hold(true); err != nil {
		return err
	}
	s, err := b.lead(who)
	if err != nil {
		return err
	}
	defer s.Stop()
	found := [2]filterResult{}
	for i := range b.options.filterPods {
		b.runs++ // makes names and amounts that have not been before
		if err := b.timeFilter(s, &found[0], 512<<20+int64(b.runs)<<12, i); err != nil {
			return err
		}
		b.runs++
		if err := b.timeFilter(s, &found[1], 384<<20, i); err != nil {
			return err
		}
	}
	for i, pods := range []string{podsNew, "repeated"} {
		at := b.result.filterOf(nodes, there, who, pods)
		if at < 0 {
			at = len(b.result.Filter)
			b.result.Filter = append(b.result.Filter, filterResult{Nodes: nodes, There: there, Scheduler: who, Pods: pods})
		}
		r := &b.result.Filter[at]
		r.Milliseconds = append(r.Milliseconds, found[i].Milliseconds...)
		r.Retried, r.Runs, r.LoadAverage = r.Retried+found[i].Retried, r.Runs+1, loadAverage()
		b.say("%d nodes, %s, %s pods: cycle p50 %.2f ms, p99 %.2f ms of %d, load %s", nodes, who, r.Pods, median(r.Milliseconds), quantile(r.Milliseconds, 0.99), len(r.Milliseconds), r.LoadAverage)
	}
	return nil
}

// filterOf returns the place of a result; below 0 where there is none.
func (r *result) filterOf(nodes, there int, who contestant, pods string) int {
	return slices.IndexFunc(r.Filter, func(f filterResult) bool {
		return f.Nodes == nodes && f.There == there && f.Scheduler == who && f.Pods == pods
	})
}

// timeFilter places one pod and takes from the scheduler's metrics how long the search took. The
// first pods of a scheduler are not counted: they warm it up.
func (b *bench) timeFilter(s *sched, r *filterResult, memory int64, i int) error {
	before, err := s.filterTime(b.ctx)
	if err != nil {
		return err
	}
	res := corev1.ResourceRequirements{Limits: amounts(4000, memory), Requests: amounts(4000, memory)}
	b.fleet.tally.reset()
	pod := podOf(fmt.Sprintf("one-%06d", b.runs), res)
	if _, err := b.plane.core.CoreV1().Pods(podNamespace).Create(b.ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.fleet.await(b.ctx, time.Minute, func(t *tally) bool { return len(t.bound) > 0 }); err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	after, err := s.filterTime(b.ctx)
	if err != nil {
		return err
	}
	switch {
	case i < filterWarmUp:
	case after.cycles-before.cycles != 1:
		r.Retried++
	default:
		r.Milliseconds = append(r.Milliseconds, 1000*(after.seconds-before.seconds))
	}
	return nil
}

type filterTime struct{ seconds, cycles float64 }

func (s *sched) filterTime(ctx context.Context) (filterTime, error) {
	const name = "scheduler_scheduling_algorithm_duration_seconds"
	m, err := s.metrics(ctx)
	return filterTime{m.sum(name + "_sum"), m.sum(name + "_count")}, err
}
