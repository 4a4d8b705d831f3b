package simulate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// jobOf returns the job of a pod; nil if the pod is only a placeholder.
func jobOf(c *clock, pod int32) *job {
	for id := range c.jobs {
		if j := &c.jobs[id]; pod >= j.first && pod < j.first+j.members {
			return j
		}
	}
	return nil
}

// TestMoves: no pod leaves before a placeholder has its new place, on another node. No two pods
// have the same resources, the state of every kubelet stays valid, and no more hours are served
// than used.
func TestMoves(t *testing.T) {
	moved, rooms, gangs, ended := int64(0), int64(0), int64(0), int64(0)
	timedCases(t, func(*Strategy) bool { return true }, func(name string, k *timedCase) {
		if s := k.strategy.Name; s != "Berth" && s != "Spread" && s != "FirstFit" {
			return
		}
		k.strategy = k.strategy.Defragmented(5 * time.Minute)
		c, a := k.prepare(t)
		a.leaves = func(pod int32) {
			j, p := jobOf(c, pod), c.defrag.plan
			if j == nil || j.members > 1 || j.left == 0 {
				return
			}
			if p == nil || &c.jobs[p.moves[0].job] != j {
				t.Fatalf("%s: pod %d leaves before its time, and no move does it", name, pod)
			}
			was, is := a.on[pod], a.on[p.holder]
			if is.shape != was.shape || is.node == was.node || is.node != int(p.moves[0].to) {
				t.Fatalf("%s: pod %d leaves %+v, and %+v is held for it", name, pod, was, is)
			}
		}
		c.run(t.Context(), func(float64) {})
		a.pass()
		for node, state := range a.Cluster.(*numa).states {
			if err := state.Check(); err != nil {
				t.Errorf("%s: node %d: %v", name, node, err)
			}
		}
		m := &c.meter
		plans := m.timed.Plans
		moved, rooms, ended = moved+plans.Moves, rooms+plans.Pods, ended+plans.Ended
		if plans.Pods > 0 {
			gangs += m.timed.Whole
		}
		if g := m.gpus.Served; g > a.gpu || plans.Moves+plans.Ended == 0 && g != a.gpu {
			t.Errorf("%s: %d GPU seconds served, %d held; %+v", name, g, a.gpu, plans)
		}
	})
	if moved < 20 || rooms < 10 || ended == 0 {
		t.Errorf("%d moves made room for %d pods, %d plans ended early: the test has seen little", moved, rooms, ended)
	}
}

// TestMakesRoom: four pods are on different NUMA nodes. A pod that needs a whole NUMA node gets it
// when one of them has moved: after an hour, and half a minute for the move.
func TestMakesRoom(t *testing.T) {
	var nodes []trace.Node
	for i := range 2 {
		nodes = append(nodes, trace.Node{Name: fmt.Sprint("n", i), MilliCPU: 64000, MiB: 1 << 18})
	}
	var pods []trace.Pod
	for i := range 5 {
		p := trace.Pod{Name: fmt.Sprint("p", i), MilliCPU: 16000, MiB: 1024, Timed: true, Created: int64(i), Deleted: 20000}
		if i == 4 {
			p.MilliCPU = 32000
		}
		pods = append(pods, p)
	}
	ground := laid(t, nodes, "sockets/single-numa-node")
	s, err := StrategiesOf(strategies(), "Spread")
	if err != nil {
		t.Fatal(err)
	}
	e := Experiment{Nodes: nodes, Pods: pods, Strategies: append(s, s[0].Defragmented(time.Hour)), Seeds: []int64{1, 2, 3}, Ground: ground, Times: &trace.Times{For: 3 * time.Hour}}
	runs, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		r := runs[i].Timed
		switch {
		case i < 3 && (r.Left != 1 || r.Plans != nil):
			t.Errorf("%s: %+v", runs[i].Strategy, r)
		case i >= 3 && (r.Left != 0 || r.Plans.Moves != 1 || r.Plans.Pods != 1 || r.Waiting.Most != 3600+30-4):
			t.Errorf("%s: %+v, %+v, want a move that makes room after an hour", runs[i].Strategy, r, r.Plans)
		}
	}
	if again, err := e.Run(t.Context()); err != nil || !reflect.DeepEqual(runs, again) {
		t.Errorf("%v: a second run has another result", err)
	}
	if name := runs[3].Strategy; name != "Spread, defrag 1h" {
		t.Errorf("%q", name)
	}
	sums := Summarize(runs)
	if len(sums) != 2 || sums[0].Timed.Moves != nil || sums[1].Timed.Moves.Mean != 1 || sums[1].Timed.CPUHours.Mean <= sums[0].Timed.CPUHours.Mean {
		t.Errorf("%+v", sums)
	}
	for want, bad := range map[string]Experiment{
		"pods that end":                        {Nodes: nodes, Pods: pods, Strategies: e.Strategies, Seeds: e.Seeds, Ground: ground},
		"a cluster with NUMA nodes":            {Nodes: nodes, Pods: pods, Strategies: e.Strategies, Seeds: e.Seeds, Times: e.Times},
		"a strategy that considers NUMA nodes": {Nodes: nodes, Pods: pods, Strategies: []Strategy{stock()[0].Defragmented(time.Hour)}, Seeds: e.Seeds, Ground: ground, Times: e.Times},
	} {
		if _, err := bad.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "defrag 1h moves pods: want "+want) {
			t.Errorf("%v", err)
		}
	}
}
