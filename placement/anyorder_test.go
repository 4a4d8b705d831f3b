package placement_test

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestTakesInAnyOrder compares the bound with random orders, on random kubelets with pods: if the
// bound promises that all requests are admitted, they are admitted in each order.
func TestTakesInAnyOrder(t *testing.T) {
	promised, kept := map[string]int{}, 0
	for seed := range uint64(6000) {
		w := newWorld(t, seed, seed%2 == 0)
		if w == nil {
			continue
		}
		for range w.r.IntN(6) {
			w.step()
		}
		for range 4 {
			crowd := w.crowd()
			order, everywhere := w.refusedIn(crowd)
			switch takes := w.state.TakesInAnyOrder(crowd); {
			case takes && !everywhere:
				t.Fatalf("seed %d, %+v: the order %v is refused\nstate %+v", seed, w.cfg, order, w.state.Snapshot())
			case takes:
				promised[w.cfg.TopologyManagerPolicy+" "+w.cfg.MemoryManagerPolicy]++
			case everywhere:
				kept++
			}
		}
	}
	t.Logf("%v promised and kept, %d kept without", promised, kept)
	for _, of := range []string{"best-effort None", "restricted None", "single-numa-node None", "single-numa-node Static"} {
		if promised[of] < 50 {
			t.Errorf("%s: %d promises: the test shows little", of, promised[of])
		}
	}
	if len(promised) > 4 {
		t.Errorf("promises where nothing can be said by counting: %v", promised)
	}
}

// crowd makes a few requests, most of them simple.
func (w *world) crowd() []*placement.Request {
	var out []*placement.Request
	for range 2 + w.r.IntN(4) {
		w.next++
		r := guaranteed(fmt.Sprint("crowd", w.next), placement.Rules{}, app("a", int64(1+w.r.IntN(3))*1000, 0))
		r.Containers[0].Memory = []placement.MemoryRequest{{Resource: "memory", Bytes: uint64(1+w.r.IntN(1024)) << 20}}
		if w.r.IntN(30) == 0 {
			r = w.request()
		}
		out = append(out, &r)
	}
	return out
}

// refusedIn tries forty orders, and returns one in which a request is refused.
func (w *world) refusedIn(crowd []*placement.Request) (order []int, none bool) {
	for range 40 {
		order, s := w.r.Perm(len(crowd)), w.state.Clone()
		for _, i := range order {
			var d placement.Decision
			if v := placement.Decide(s, crowd[i], &d); !v.OK() {
				return order, false
			}
			s.Commit(crowd[i], &d)
		}
	}
	return nil, true
}
