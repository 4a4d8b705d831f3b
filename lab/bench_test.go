package lab

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/simulate"
)

// BenchmarkTimed runs 168,706 pods of the public list on 5,000 nodes with NUMA nodes, at 85 percent
// load (README.md).
func BenchmarkTimed(b *testing.B) {
	dir := openb(b)
	nodes, pods := readNodes(b, dir), simulate.Whole(readPods(b, dir, "default"))
	for i := 0; len(nodes) < 5000; i++ {
		n := nodes[i]
		n.Name = fmt.Sprint(n.Name, "-", len(nodes))
		nodes = append(nodes, n)
	}
	o, err := ParseOverlay("sockets/restricted")
	if err != nil {
		b.Fatal(err)
	}
	ground, err := NewNUMA(nodes, Overlays{Rest: &o})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"Berth", "Berths", "KAI", "StockLeast"} {
		b.Run(name, func(b *testing.B) {
			s, err := StrategiesOf(name)
			if err != nil {
				b.Fatal(err)
			}
			e := simulate.Experiment{Nodes: nodes, Pods: pods, Strategies: s, Seeds: []int64{42}, Ground: ground,
				Times: Load(nodes, pods, 0.85, benchHours)}
			for b.Loop() {
				runs, err := e.Run(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(runs[0].Timed.Arrived), "pods")
			}
		})
	}
}

// benchHours is the time in which pods arrive.
const benchHours = time.Hour
