package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cycles measures single scheduling cycles on a cluster with running pinned pods, except runs that
// were measured before.
func (c *comparison) cycles(t task) error {
	nodes, pods, ready := c.options.nodes[t.size], of(c.options.pods, t.size), false
	for i := range of(c.options.filterRuns, t.size) {
		for _, who := range inTurn(i) {
			if at := c.result.filterOf(nodes, pods, who, podsNew); at >= 0 && c.result.Filter[at].Runs > i {
				continue
			}
			if !ready {
				if err := c.fill(t.size); err != nil {
					return fmt.Errorf("fill the nodes: %w", err)
				}
				ready = true
			}
			if err := c.filterRun(nodes, pods, who); err != nil {
				return err
			}
			if err := c.keep(); err != nil {
				return err
			}
		}
	}
	if !ready {
		return nil
	}
	if err := c.hold(true); err != nil {
		return err
	}
	return c.deletePods()
}

// fill makes Berth bind the load of pinned pods.
func (c *comparison) fill(size int) error {
	if c.stage.size != size || c.stage.pair == 0 { // otherwise the control plane of the last pair is used
		if err := c.enter(stage{size, 1}); err != nil {
			return err
		}
	}
	defer c.took("single cycles: pods that are there", time.Now())
	pods := of(c.options.pods, size)
	if err := c.createPods(loadPinned, c.options.profiles[0], pods); err != nil {
		return err
	}
	s, err := c.lead(berth)
	if err != nil {
		return err
	}
	defer s.Stop()
	c.fleet.tally.reset()
	if err := c.fleet.await(c.ctx, runLimit, func(t *tally) bool { return len(t.bound) >= pods }); err != nil {
		return err
	}
	return c.fleet.quiet(c.ctx, pods)
}

// filterRun places pods one by one. An interrupted run leaves no result.
func (c *comparison) filterRun(nodes, there int, who contestant) error {
	defer c.took("single cycles", time.Now())
	if err := c.hold(true); err != nil {
		return err
	}
	s, err := c.lead(who)
	if err != nil {
		return err
	}
	defer s.Stop()
	of := filterResult{Nodes: nodes, There: there, Scheduler: who, Pods: podsNew}
	found := [2]filterResult{of, of}
	found[1].Pods = "repeated"
	for i := range c.options.filterPods {
		c.runs++ // makes new names and amounts
		if err := c.timeFilter(s, &found[0], 512<<20+int64(c.runs)<<12, i); err != nil {
			return err
		}
		c.runs++
		if err := c.timeFilter(s, &found[1], 384<<20, i); err != nil {
			return err
		}
	}
	for i := range found {
		r := c.result.addFilter(&found[i])
		c.say("%d nodes, %s, %s pods: cycle p50 %.2f ms, p99 %.2f ms of %d, load %s", nodes, who, r.Pods, median(r.Milliseconds), quantile(r.Milliseconds, 0.99), len(r.Milliseconds), r.LoadAverage)
	}
	return nil
}

// timeFilter places one pod and reads the time of the search from the scheduler's metrics. The
// first pods of a scheduler are not counted: they warm it up.
func (c *comparison) timeFilter(s *sched, r *filterResult, memory int64, i int) error {
	before, err := s.filterTime(c.ctx)
	if err != nil {
		return err
	}
	res := corev1.ResourceRequirements{Limits: amounts(4000, memory), Requests: amounts(4000, memory)}
	c.fleet.tally.reset()
	pod := podOf(fmt.Sprintf("one-%06d", c.runs), res)
	if _, err := c.plane.core.CoreV1().Pods(podNamespace).Create(c.ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.fleet.await(c.ctx, time.Minute, func(t *tally) bool { return len(t.bound) > 0 }); err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	after, err := s.filterTime(c.ctx)
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
