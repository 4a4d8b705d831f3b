package main

import (
	"strings"
	"testing"
)

// TestFloors: the summary has the worst measured values, and names the missed floors.
func TestFloors(t *testing.T) {
	ratio := func(nodes int, load string, settled, cpu float64) ratioResult {
		return ratioResult{Nodes: nodes, Load: load, Pairs: 2, Settled: estimate{Centre: settled}, Told: estimate{Centre: settled - 0.1}, CPU: estimate{Centre: cpu}, Memory: estimate{Centre: cpu + 0.08}}
	}
	good := result{
		Ratios: []ratioResult{ratio(500, loadPinned, 1.1, 0.9), ratio(5000, loadPinned, 1.3, 0.7), ratio(5000, loadOrdinary, 0.9, 1.01)},
		Runs:   []runResult{{cycleStats: cycleStats{Searches: 200, SecondRounds: 1}, runKey: runKey{Profile: profileChart}}, {}},
		Filter: []filterResult{
			{Nodes: 5000, Scheduler: stock, Pods: podsNew, Milliseconds: []float64{4}}, {Nodes: 5000, Scheduler: stock, Pods: "repeated", Milliseconds: []float64{1}},
			{Nodes: 5000, Scheduler: berth, Pods: podsNew, Milliseconds: []float64{3}}, {Nodes: 5000, Scheduler: berth, Pods: "repeated", Milliseconds: []float64{5}},
		},
	}
	stocks := ratio(5000, loadPinned, 1.05, 1.11)
	stocks.Profile = profileStock
	bad := result{
		Ratios: []ratioResult{ratio(500, loadPinned, 0.99, 0.9), ratio(5000, loadPinned, 1.15, 0.71), stocks, ratio(5000, loadOrdinary, 1, 1.04)},
		Gangs:  []gangRatio{{Settled: estimate{Centre: 0.95}}, {Settled: estimate{Centre: 0.89}}},
		Runs:   []runResult{{cycleStats: cycleStats{Searches: 200, SecondRounds: 1}}, {cycleStats: cycleStats{Searches: 150, Nowhere: 50, SecondRounds: 2}}},
		Filter: []filterResult{{Scheduler: stock, Pods: podsNew, Milliseconds: []float64{2}}, {Scheduler: berth, Pods: podsNew, Milliseconds: []float64{3}}},
	}
	for _, tc := range []struct {
		name, missing, line string
		r                   *result
		missed              []string
	}{
		{"good", "cpu15000, cpuStock, the profile stock", `{"pairs":4,"cpu500":0.9,"cpu5000":0.7,"cpu15000":null,"cpuStock":null,"settled":1.1,"settled5000":1.3,"told":1,"ordinaryCPU":1.01,"memory":1.09,"secondRound":0.005,"p99New":0.75}`, &good, nil},
		{"bad", "", `{"pairs":6,"cpu500":0.9,"cpu5000":0.71,"cpu15000":null,"cpuStock":1.11,"settled":0.99,"settled5000":1.15,"told":0.89,"ordinaryCPU":1.04,"memory":1.1900000000000002,"secondRound":0.02,"p99New":1.5,"gangs":0.89}`, &bad,
			[]string{"cpu5000: 0.710: want at most 0.7", "cpuStock: 1.110: want at most 1.1", "settled: 0.990: want at least 1", "settled5000: 1.150: want at least 1.2", "told: 0.890: want at least 0.9", "ordinaryCPU: 1.040: want at most 1.03", "memory: 1.190: want at most 1.15", "secondRound: 0.020: want at most 0.01", "p99New: 1.500: want at most 1", "gangs: 0.890: want at least 0.9"}},
		{"shadow mode", "", `{"pairs":0,"cpu500":null,"cpu5000":null,"cpu15000":null,"cpuStock":null,"settled":null,"settled5000":null,"told":null,"ordinaryCPU":null,"memory":null,"secondRound":null,"p99New":null,"shadow":0.125}`,
			&result{Runs: []runResult{{SchedulerCPU: 1000, Shadow: &shadowResult{CPU: 50}}, {SchedulerCPU: 800, Shadow: &shadowResult{CPU: 100}}}}, []string{"shadow: 0.125: want at most 0.1"}},
		{"nothing", "cpu500, cpu5000, cpu15000, cpuStock, settled, settled5000, told, ordinaryCPU, memory, secondRound, p99New, the profile chart, the profile stock", `{"pairs":0,"cpu500":null,"cpu5000":null,"cpu15000":null,"cpuStock":null,"settled":null,"settled5000":null,"told":null,"ordinaryCPU":null,"memory":null,"secondRound":null,"p99New":null}`, &result{}, nil},
	} {
		var out strings.Builder
		err := tc.r.conclude(&out)
		want := tc.line
		if tc.missing != "" {
			want = "not measured: " + tc.missing + "\n\n" + want
		}
		if got := strings.TrimSpace(out.String()); got != want {
			t.Errorf("%s: %s, want %s", tc.name, got, want)
		}
		if got := ""; err != nil || tc.missed != nil {
			if err != nil {
				got = err.Error()
			}
			if got != strings.Join(tc.missed, "\n") {
				t.Errorf("%s: %s, want %s", tc.name, got, tc.missed)
			}
		}
	}
}
