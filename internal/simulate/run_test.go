package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// randomLists returns a few nodes, and pods that do not all fit.
func randomLists(rng *rand.Rand) (nodes []trace.Node, pods []trace.Pod) {
	for i := range 1 + rng.Intn(12) {
		nodes = append(nodes, trace.Node{Name: fmt.Sprint("n", i), MilliCPU: 16000 * int64(1+rng.Intn(4)), MiB: 65536, GPUs: rng.Intn(5), GPUModel: []string{"", "A", "B"}[rng.Intn(3)]})
	}
	for i := range 40 {
		p := trace.Pod{Name: fmt.Sprint("p", i), MilliCPU: 1000 * int64(rng.Intn(9)), MiB: 1024 * int64(rng.Intn(9))}
		if p.GPUs = rng.Intn(4); p.GPUs > 0 {
			p.MilliGPU = 1000
		}
		if p.GPUs == 1 && rng.Intn(2) == 0 {
			p.MilliGPU = 100 * int64(1+rng.Intn(9))
		}
		if p.GPUs > 0 && rng.Intn(4) == 0 {
			p.GPUModels = []string{"A"}
		}
		pods = append(pods, p)
	}
	return nodes, pods
}

// slowly is the slow twin of player.arrivals: it asks every node about every pod.
func slowly(c Cluster, all []Shape, of []int32, s *Strategy, load []Typical, d *trace.Draw) (f Figures) {
	by := s.New(load)
	all = keeping(all, s.Keep)
	for i, pod := range d.Arrivals {
		shape := &all[of[pod]]
		c.Learn()
		if l, ok := by.(Learner); ok {
			l.Learn(shape)
		}
		best, score, equal := -1, int64(0), 0
		var l Look
		for _, node := range d.Order {
			if !c.Look(int(node), shape, &l) {
				continue
			}
			switch v := by.Score(&l); {
			case best < 0 || v > score:
				best, score, equal = int(node), v, 1
			case v == score && s.Ties == ByChance:
				if equal++; d.Rand.Intn(equal) == 0 {
					best = int(node)
				}
			}
		}
		var o Outcome
		if best >= 0 {
			gpu := -1
			if shape.GPUs == 1 && shape.MilliGPU < 1000 && c.Look(best, shape, &l) {
				gpu = by.GPU(&l, d.Rand)
			}
			o = c.Put(best, int32(i), shape, gpu)
		}
		f.arrived(shape, best >= 0, o)
	}
	return f
}

// TestRemembering: cached answers equal new ones.
func TestRemembering(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for round := range 60 {
		nodes, pods := randomLists(rng)
		all, of := shapes(pods)
		load := typical(all, make([]int, len(all)))
		for i := range load {
			load[i].Part = 1 / float64(len(load))
		}
		for _, s := range onAmounts() {
			seed := int64(round)
			want := slowly(NewAmounts(nodes), all, of, &s, load, trace.NewDraw(nodes, pods, seed, nil))
			p := newPlayer(NewAmounts(nodes), all, &s, load, trace.NewDraw(nodes, pods, seed, nil))
			if round%2 == 1 {
				p.scores.width = 3 // so that shapes replace one another
			}
			if got, _ := p.arrivals(of, Capacity{GPU: 1}); got != want {
				t.Fatalf("round %d, %s: %+v, asking every node %+v", round, s.Name, got, want)
			}
		}
	}
}

// TestTake: after a pod was taken, a node is as before.
func TestTake(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	for range 50 {
		nodes, pods := randomLists(rng)
		all, of := shapes(pods)
		c := NewAmounts(nodes)
		for i := range pods {
			var l Look
			node, s := rng.Intn(len(nodes)), &all[of[i]]
			if !c.Look(node, s, &l) {
				continue
			}
			before := string(c.AppendKey(nil, node))
			c.Put(node, int32(i), s, tightest(&l))
			if rng.Intn(2) == 0 {
				continue
			}
			c.Take(node, int32(i), s)
			if after := string(c.AppendKey(nil, node)); after != before {
				t.Fatalf("%q, before %q", after, before)
			}
		}
	}
}

// TestSame: an experiment has the same result each time, whichever cores its runs use.
func TestSame(t *testing.T) {
	nodes, pods := randomLists(rand.New(rand.NewSource(3)))
	e := Experiment{Nodes: nodes, Pods: pods, Strategies: onAmounts(), Seeds: []int64{1, 2, 3}}
	first, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := e.Run(t.Context())
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("%v: %+v, then %+v", err, first, again)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := e.Run(ctx); !errors.Is(err, enough) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestStrategiesOf(t *testing.T) {
	if s, err := StrategiesOf(Strategies(), "berth", "StockLeast"); err != nil || len(s) != 2 || s[0].Name != "Berth" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, names := range [][]string{{"Berth", "berth"}, {"Bert"}, {""}} {
		if _, err := StrategiesOf(Strategies(), names...); err == nil {
			t.Errorf("%q was found", names)
		}
	}
}
