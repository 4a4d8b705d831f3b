package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/berth-dev/berth/placement"
)

var policies = []string{"restricted", "single-numa-node", "best-effort"}

// BenchmarkDecide measures a full decision with CPUs, memory and devices, without the kubelet.
func BenchmarkDecide(b *testing.B) {
	for _, q := range questions() {
		b.Run(q.String(), func(b *testing.B) {
			e := newEngine(b, q)
			s := turns(b, func() []float64 { return []float64{timed(1000, e.decide)} })
			b.ReportMetric(s.median(0), "berth-ns")
			noAllocations(b, e.decide)
		})
	}
}

// BenchmarkNUMANodes divides the cost on 8 NUMA nodes by the cost on 2, with equally many CPUs.
func BenchmarkNUMANodes(b *testing.B) {
	for _, pod := range []string{"P1", "P2"} {
		for _, policy := range policies {
			b.Run(pod+"/"+policy, func(b *testing.B) {
				few, many := newEngine(b, question{m2, pod, policy, true}), newEngine(b, question{m8, pod, policy, true})
				s := turns(b, func() []float64 { return []float64{timed(1000, many.admit), timed(1000, few.admit)} })
				b.ReportMetric(s.median(1), "M2-ns")
				b.ReportMetric(s.median(0), "M8-ns")
				b.ReportMetric(s.ratio(0, 1), "M8/M2")
				atMost(b, "M8/M2", s.ratio(0, 1), 5)
				noAllocations(b, many.admit)
			})
		}
	}
}

// BenchmarkResources divides the cost of a pod with four resources by the cost of a pod with two.
func BenchmarkResources(b *testing.B) {
	for _, m := range []machine{m2, m8} {
		for _, policy := range policies {
			b.Run(m.name+"/"+policy, func(b *testing.B) {
				two, four := newEngine(b, question{m, "P1", policy, true}), newEngine(b, question{m, "P2", policy, true})
				s := turns(b, func() []float64 { return []float64{timed(1000, four.admit), timed(1000, two.admit)} })
				b.ReportMetric(s.median(1), "P1-ns")
				b.ReportMetric(s.median(0), "P2-ns")
				b.ReportMetric(s.ratio(0, 1), "P2/P1")
				atMost(b, "P2/P1", s.ratio(0, 1), 2.5)
				noAllocations(b, four.admit)
			})
		}
	}
}

// podsPerMachine is how many pods a machine of a fleet has, most of them without exclusive
// resources.
const podsPerMachine = 20

// fleet has machines of one kind, each with its own state, pods and devices, in the order of
// allocation.
type fleet struct {
	*engine
	states []*placement.State
	// visits is the order of asking.
	visits []int32
	next   int
}

func newFleet(t testing.TB, n int) *fleet {
	t.Helper()
	f := &fleet{engine: newEngine(t, question{m8, "P2", "restricted", true})}
	r := rand.New(rand.NewPCG(3, 4))
	for range n {
		snap := f.state.Snapshot()
		for i := range snap.Pods {
			snap.Pods[i].UID = uuid(r)
		}
		for len(snap.Pods) < podsPerMachine {
			snap.Pods = append(snap.Pods, placement.PodAllocation{UID: uuid(r), Containers: []placement.ContainerAllocation{{Name: "main"}}})
		}
		for i := range snap.Devices[0].Devices {
			snap.Devices[0].Devices[i].ID = fmt.Sprintf("GPU-%d-%s", i, uuid(r))
		}
		s, err := f.model.StateOf(&snap)
		if err != nil {
			t.Fatal(err)
		}
		f.states = append(f.states, s)
	}
	for _, i := range r.Perm(n) {
		f.visits = append(f.visits, int32(i))
	}
	return f
}

func uuid(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.Uint32()>>16, r.Uint32()>>16, r.Uint32()>>16, r.Uint64()>>16)
}

// inOrder asks the next machine, in the order in which the machines were made.
func (f *fleet) inOrder() {
	placement.Admit(f.states[f.turn()], &f.request)
}

// atRandom asks the next machine in an order that the CPU can neither prefetch nor predict.
func (f *fleet) atRandom() {
	placement.Admit(f.states[f.visits[f.turn()]], &f.request)
}

func (f *fleet) turn() int {
	at := f.next
	if f.next++; f.next == len(f.states) {
		f.next = 0
	}
	return at
}

// heap returns the bytes in use.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkFleet measures the cost per machine of asking all machines of fleets of different sizes:
// in order, as a scheduler does, and at random, which is the worst case for caches.
func BenchmarkFleet(b *testing.B) {
	sizes := []int{1_000, 10_000, 100_000}
	var fleets []*fleet
	var bytes float64
	for _, n := range sizes {
		before := heap()
		fleets = append(fleets, newFleet(b, n))
		bytes = (heap() - before) / float64(n)
	}
	for _, order := range []struct {
		name  string
		ask   func(*fleet)
		limit float64
	}{{"in-order", (*fleet).inOrder, 2}, {"at-random", (*fleet).atRandom, 4}} {
		b.Run(order.name, func(b *testing.B) {
			s := turns(b, func() (figures []float64) {
				for _, f := range fleets {
					figures = append(figures, timed(20_000, func() { order.ask(f) }))
				}
				return figures
			})
			for i, n := range sizes {
				b.ReportMetric(s.median(i), fmt.Sprintf("%dk-ns", n/1000))
			}
			b.ReportMetric(s.ratio(2, 0), "100k/1k")
			b.ReportMetric(bytes, "bytes/machine")
			atMost(b, "100k/1k", s.ratio(2, 0), order.limit)
			noAllocations(b, func() { order.ask(fleets[0]) })
		})
	}
}
