package scheduler

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// fleet makes count nodes that have reported.
func fleet(b *testing.B, count int) (*fixture, []*node) {
	b.Helper()
	f := newFixture(b)
	base := f.topology()
	var list []*node
	for i := range count {
		nt := base.DeepCopy()
		nt.Name, nt.UID = fmt.Sprint("n", i), types.UID(fmt.Sprint("nt", i))
		f.feed.topologySeen(nt)
		list = append(list, f.nodes.get(nt.Name))
	}
	return f, list
}

// BenchmarkFilter5000New asks 5,000 nodes about a pod of a shape that none was asked about before, one after the other.
func BenchmarkFilter5000New(b *testing.B) {
	f, list := fleet(b, 5000)
	i := int64(0)
	for b.Loop() {
		i++
		r := placement.Request{Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 4000,
			Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: uint64(i) << 10}}}}}
		ask(b, f, list, &ledger.Candidate{Request: &r, Shape: f.nodes.ledger.Shape(&r), Created: i})
	}
}

// BenchmarkFilter5000Same asks again about a shape that all nodes have answered for.
func BenchmarkFilter5000Same(b *testing.B) {
	f, list := fleet(b, 5000)
	r := placement.Request{Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 4000}}}
	c := &ledger.Candidate{Request: &r, Shape: f.nodes.ledger.Shape(&r)}
	for b.Loop() {
		ask(b, f, list, c)
	}
}

func ask(b *testing.B, f *fixture, list []*node, c *ledger.Candidate) {
	for _, n := range list {
		if why := n.refusal(f.clock.Now(), f.args.StaleAfter.Duration); why != "" {
			b.Fatal(why)
		}
		if a := n.Admit(c); !a.OK() {
			b.Fatal(a)
		}
	}
}

// BenchmarkNodeMemory reports what a node that has reported costs in bytes.
func BenchmarkNodeMemory(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, list := fleet(b, 5000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(list)), "B/node")
	runtime.KeepAlive(list)
}
