package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/test/usage"
)

// startResult is the time from the start of a scheduler's process until the watch showed its first
// Binding, of a waiting pinned pod.
type startResult struct {
	Nodes     int        `json:"nodes"`
	Pods      int        `json:"pods"` // running pods
	Scheduler contestant `json:"scheduler"`
	Pair      int        `json:"pair"`
	Seconds   float64    `json:"seconds"`
	// CPU is the scheduler's processor time until then, in seconds, PeakMemory its largest resident
	// set in bytes.
	CPU         float64 `json:"cpuSeconds"`
	PeakMemory  int64   `json:"peakMemory"`
	LoadAverage string  `json:"loadAverage"`
}

// starts measures in pairs how soon each scheduler binds its first pod, in clusters with running
// pods.
func (b *bench) starts() error {
	kinds, err := kindsOfCluster()
	if err != nil {
		return err
	}
	if err := b.simulate(kinds, true); err != nil {
		return err
	}
	there := 0
	for i, nodes := range b.options.nodes {
		pods := of(b.options.pods, i)
		if err := b.grow(nodes); err != nil {
			return err
		}
		if err := b.fill(there, pods); err != nil {
			return fmt.Errorf("make %d pods: %w", pods, err)
		}
		there = pods
		for pair := range of(b.options.pairs, i) {
			for _, who := range inTurn(pair) {
				r := startResult{Nodes: nodes, Pods: pods, Scheduler: who, Pair: pair}
				if err := b.firstBinding(&r); err != nil {
					return err
				}
				b.result.Starts = append(b.result.Starts, r)
				b.say("%d nodes, %d pods, %s: first Binding after %.1f s, %.1f s of processor time, peak %d MiB", nodes, pods, who, r.Seconds, r.CPU, r.PeakMemory>>20)
				if err := b.keep(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fill creates the pods from index from up to to. Each pod names its node, so that no scheduler is
// needed. Two of seven pods are pinned.
func (t *testbed) fill(from, to int) error {
	defer t.took("pods that run", time.Now())
	nodes, perNode := len(t.fleet.list), (to+len(t.fleet.list)-1)/len(t.fleet.list)
	err := each(t.ctx, 32, max(0, to-from), func(ctx context.Context, i int) error {
		load := loadOrdinary
		if number := from + i; number%7 < 2 {
			load = loadPinned
		}
		pod := newPod(load, 0)
		pod.Name = "running-" + strconv.Itoa(from+i)
		pod.Spec.NodeName = t.fleet.list[(from+i)/max(1, perNode)%nodes].name // the pods of a node are created together
		_, err := t.plane.core.CoreV1().Pods(podNamespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return t.fleet.await(t.ctx, time.Hour, func(y *tally) bool { return len(y.there) >= to && t.fleet.idle() })
}

// firstBinding starts a scheduler that may lead at once, as the first of its cluster, and waits for
// its first Binding.
func (t *testbed) firstBinding(r *startResult) error {
	if err := t.forgetLeader(); err != nil {
		return err
	}
	if err := t.hold(false); err != nil {
		return err
	}
	pods := t.plane.core.CoreV1().Pods(podNamespace)
	pod := newPod(loadPinned, 0)
	pod.Name = "first"
	if _, err := pods.Create(t.ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := t.plane.calm(t.ctx); err != nil {
		return err
	}
	t.fleet.tally.reset()
	begun := time.Now()
	s, err := t.startScheduler(r.Scheduler, t.options.profiles[0])
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := t.fleet.await(t.ctx, runLimit, func(y *tally) bool { return len(y.bound) > 0 }); err != nil {
		return err
	}
	r.Seconds, r.CPU = time.Since(begun).Seconds(), usage.CPU(s.Process).Seconds()
	r.PeakMemory, r.LoadAverage = usage.Memory(s.Process, "VmHWM"), loadAverage()
	s.Stop()
	if err := t.hold(true); err != nil {
		return err
	}
	if err := pods.Delete(t.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		return err
	}
	return t.fleet.quiet(t.ctx, r.Pods)
}

// startRatio is Berth's time from its start until its first Binding divided by stock's: the median
// of the pairs, 0 without pairs.
func startRatio(all []startResult) float64 {
	var ratios []float64
	for i := range all {
		for j := range all {
			a, b := &all[i], &all[j]
			if a.Scheduler == berth && b.Scheduler == stock && a.Nodes == b.Nodes && a.Pair == b.Pair {
				ratios = append(ratios, a.Seconds/b.Seconds)
			}
		}
	}
	if len(ratios) == 0 {
		return 0
	}
	return median(ratios)
}

func (r *result) printStarts(w io.Writer) {
	if len(r.Starts) == 0 {
		return
	}
	table(w, "nodes\tpods\tpair\tscheduler\tfirst Binding after s\tCPU s\tpeak MiB\tload average", func(line func(...any)) {
		for _, s := range r.Starts {
			line(s.Nodes, s.Pods, s.Pair+1, s.Scheduler, s.Seconds, s.CPU, s.PeakMemory>>20, s.LoadAverage)
		}
	})
	fmt.Fprintf(w, "\nBerth divided by stock, median: %.2f\n", startRatio(r.Starts))
}
