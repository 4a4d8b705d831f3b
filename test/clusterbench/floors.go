package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// summary is the last line of a comparison. A figure is Berth divided by stock, the median of the
// pairs. It is null if it was not measured.
type summary struct {
	// Pairs is the number of pairs with pinned pods, over all numbers of nodes.
	Pairs int `json:"pairs"`
	// CPU500, CPU5000 and CPU15000 are ratios of the scheduler's processor time per pinned pod on
	// that many nodes. OrdinaryCPU is the ratio per ordinary pod. Each is the worst of its loads.
	CPU500   *float64 `json:"cpu500"`
	CPU5000  *float64 `json:"cpu5000"`
	CPU15000 *float64 `json:"cpu15000"`
	// CPUStock is the same ratio with kube-scheduler's own arguments; the other ratios are with the
	// chart's arguments.
	CPUStock *float64 `json:"cpuStock"`
	// Settled is the ratio of pinned pods per second until everything is settled, in the worst
	// case.
	Settled *float64 `json:"settled"`
	// Settled5000 is Settled on 5,000 nodes under the chart's arguments.
	Settled5000 *float64 `json:"settled5000"`
	// Told is like Settled, but ends when all events are written too, which Berth writes last.
	Told        *float64 `json:"told"`
	OrdinaryCPU *float64 `json:"ordinaryCPU"`
	// Memory is the ratio of the scheduler's largest memory, for both kinds of pods, in the worst
	// case.
	Memory *float64 `json:"memory"`
	// SecondRound is the share of searches in which the first candidates did not suffice, in the
	// worst case.
	SecondRound *float64 `json:"secondRound"`
	// P99New is the ratio of the 99th percentile of the search time for a pinned pod of a new
	// shape, in the worst case.
	P99New *float64 `json:"p99New"`
	// Gangs is the ratio of pods per second until everything is settled, in gangs to one by one, in
	// the worst case. Only the verb gangs measures it.
	Gangs *float64 `json:"gangs,omitempty"`
	// Start is the ratio of the median time from a scheduler's start to its first Binding. Only the
	// verb starts measures it.
	Start *float64 `json:"start,omitempty"`
	// Shadow is the processor time per pod of shadow mode divided by that of the watched scheduler,
	// in the worst case. Only the verb shadow measures it.
	Shadow *float64 `json:"shadow,omitempty"`
}

// Required values of a comparison; see summary.
const (
	floorCPU500      = 0.9
	floorCPU5000     = 0.7
	floorCPU15000    = 0.75
	floorCPUStock    = 1.1
	floorSettled     = 1.0
	floorSettled5000 = 1.2
	floorTold        = 0.9
	floorOrdinaryCPU = 1.03
	floorMemory      = 1.15
	floorSecondRound = 0.01
	floorP99New      = 1.0
	floorGangs       = 0.9
	floorStart       = 1.5
	floorShadow      = 0.1
)

// summarize makes a summary of the results.
func summarize(r *result) (s summary) {
	s.takeRatios(r.Ratios)
	for i := range r.Gangs {
		lowest(&s.Gangs, r.Gangs[i].Settled.Centre)
	}
	if ratio := startRatio(r.Starts); ratio > 0 {
		s.Start = &ratio
	}
	for i := range r.Filter {
		f := &r.Filter[i]
		beside := r.filterOf(f.Nodes, f.There, stock, f.Pods)
		if f.Scheduler == berth && f.Pods == podsNew && beside >= 0 {
			highest(&s.P99New, quantile(f.Milliseconds, 0.99)/quantile(r.Filter[beside].Milliseconds, 0.99))
		}
	}
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Searches > run.Nowhere {
			highest(&s.SecondRound, run.SecondRounds/(run.Searches-run.Nowhere))
		}
		if run := &r.Runs[i]; run.Shadow != nil {
			highest(&s.Shadow, run.Shadow.CPU/run.SchedulerCPU)
		}
	}
	return s
}

// highest and lowest keep the worst value of a figure.
func highest(into **float64, value float64) {
	if *into == nil || value > **into {
		*into = &value
	}
}

func lowest(into **float64, value float64) {
	if *into == nil || value < **into {
		*into = &value
	}
}

// takeRatios adds the comparisons of schedulers.
func (s *summary) takeRatios(all []ratioResult) {
	cpu := map[int]**float64{500: &s.CPU500, 5000: &s.CPU5000, 15000: &s.CPU15000}
	for i := range all {
		ratio := &all[i]
		highest(&s.Memory, ratio.Memory.Centre)
		if ratio.Load == loadOrdinary {
			highest(&s.OrdinaryCPU, ratio.CPU.Centre)
			continue
		}
		s.Pairs += ratio.Pairs
		lowest(&s.Settled, ratio.Settled.Centre)
		lowest(&s.Told, ratio.Told.Centre)
		if ratio.Profile == profileStock {
			highest(&s.CPUStock, ratio.CPU.Centre)
			continue
		}
		if ratio.Nodes == 5000 {
			lowest(&s.Settled5000, ratio.Settled.Centre)
		}
		if into := cpu[ratio.Nodes]; into != nil {
			highest(into, ratio.CPU.Centre)
		}
	}
}

// floor is the required value of a figure of the summary.
type floor struct {
	name  string
	value *float64 // nil if it was not measured
	floor float64
	least bool // the limit is a minimum, otherwise a maximum
}

func (s *summary) floors() []floor {
	return []floor{
		{"cpu500", s.CPU500, floorCPU500, false}, {"cpu5000", s.CPU5000, floorCPU5000, false}, {"cpu15000", s.CPU15000, floorCPU15000, false},
		{"cpuStock", s.CPUStock, floorCPUStock, false},
		{"settled", s.Settled, floorSettled, true}, {"settled5000", s.Settled5000, floorSettled5000, true}, {"told", s.Told, floorTold, true}, {"ordinaryCPU", s.OrdinaryCPU, floorOrdinaryCPU, false},
		{"memory", s.Memory, floorMemory, false},
		{"secondRound", s.SecondRound, floorSecondRound, false}, {"p99New", s.P99New, floorP99New, false},
		{"gangs", s.Gangs, floorGangs, true}, {"start", s.Start, floorStart, false}, {"shadow", s.Shadow, floorShadow, false},
	}
}

// check returns an error that names the missed floors. A figure that was not measured misses none.
func (s *summary) check() error {
	var missed []error
	for _, f := range s.floors() {
		switch {
		case f.value == nil:
		case f.least && *f.value < f.floor:
			missed = append(missed, fmt.Errorf("%s: %.3f: want at least %g", f.name, *f.value, f.floor))
		case !f.least && *f.value > f.floor:
			missed = append(missed, fmt.Errorf("%s: %.3f: want at most %g", f.name, *f.value, f.floor))
		}
	}
	return errors.Join(missed...)
}

// missing returns figures (null) and profiles that a comparison of schedulers has not measured.
func (r *result) missing(s *summary) (out []string) {
	for _, f := range s.floors() {
		if f.value == nil && f.name != "gangs" && f.name != "start" && f.name != "shadow" {
			out = append(out, f.name)
		}
	}
	for _, profile := range []string{profileChart, profileStock} {
		if !slices.ContainsFunc(r.Runs, func(run runResult) bool { return run.Profile == profile }) {
			out = append(out, "the profile "+profile)
		}
	}
	return out
}

// conclude prints the summary and, one per line, the figures that were not measured. It returns the
// missed floors.
func (r *result) conclude(w io.Writer) error {
	s := summarize(r)
	line, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	if missing := r.missing(&s); len(missing) > 0 && s.Gangs == nil && s.Shadow == nil {
		fmt.Fprintf(w, "\nnot measured: %s\n", strings.Join(missing, ", "))
	}
	fmt.Fprintf(w, "\n%s\n", line)
	return s.check()
}
