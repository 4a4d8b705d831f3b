package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the flags of every verb.
type options struct {
	nodes []int // ascending; a number may appear again with other pods
	// The i-th value of pods, pairs and filterRuns is for nodes[i]. If a list is shorter than
	// nodes, its last value is used for the rest.
	pods, pairs []int
	// filterRuns is how often the cycles of each scheduler are measured, filterPods the number of
	// pods of each kind.
	filterRuns []int
	filterPods int
	// warmUp is the number of pods in a first pair of runs, which does not count; 0 for no such
	// pair.
	warmUp int
	// apart gives the schedulers exclusive processors.
	apart bool
	// fresh starts every pair on a new control plane.
	fresh     bool
	loads     []string
	profiles  []string
	agents    string
	scheduler string
	// floors makes the program fail if a comparison misses them.
	floors    bool
	out       string
	heartbeat time.Duration
	length    time.Duration
	profile   bool
}

// Profiles of both schedulers. They differ in the arguments of other plugins than Berth.
const (
	// profileChart has the chart's arguments: no default spreading.
	profileChart = "chart"
	// profileStock has kube-scheduler's own arguments. The pods belong to ReplicaSets behind
	// Services, and are spread.
	profileStock = "stock"
)

// The schedulers of the runs in which nodes have agents.
const (
	agentsAlways = "always"
	agentsBerth  = "berth"
)

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("clusterbench", flag.ContinueOnError)
	f.SetOutput(stderr)
	nodes := f.String("nodes", "5000", "numbers of nodes, ascending, separated by commas")
	loads := f.String("loads", "ordinary,pinned", "kinds of pods, separated by commas")
	profiles := f.String("profiles", profileChart, "profiles of the schedulers, separated by commas: chart, with the chart's arguments of the other plugins; stock, with theirs, and pods of ReplicaSets behind Services")
	pods := f.String("pods", "10000", "number of pods in one run, for each number of nodes")
	pairs := f.String("pairs", "5", "number of pairs of runs, for each number of nodes")
	f.IntVar(&o.warmUp, "warm-up", 500, "number of pods in a first pair of runs, which does not count; 0 for no such pair")
	f.BoolVar(&o.apart, "apart", false, "give the schedulers half of the processors, and all other processes the other half")
	f.BoolVar(&o.fresh, "fresh", false, "start a new control plane and new nodes for every pair")
	filterRuns := f.String("filter-runs", "3", "number of runs of each scheduler that measure cycles of single pods, for each number of nodes; 0 for none")
	f.IntVar(&o.filterPods, "filter-pods", 80, "number of pods of each kind in such a run")
	f.StringVar(&o.agents, "agents", agentsAlways, "always: agents report under both schedulers, so that only these differ; berth: under Berth alone")
	f.StringVar(&o.scheduler, "scheduler", "bin/berth-scheduler", "the program berth-scheduler")
	f.BoolVar(&o.floors, "floors", false, "print a last line of JSON, and fail if Berth is too slow compared with the stock scheduler")
	f.StringVar(&o.out, "out", "", "folder for the JSON result, logs and profiles")
	f.DurationVar(&o.heartbeat, "heartbeat", 10*time.Second, "interval of every agent's heartbeat")
	f.DurationVar(&o.length, "length", time.Minute, "how long writes are generated")
	f.BoolVar(&o.profile, "profile", false, "save CPU profiles of the schedulers and of the API server, and the schedulers' heaps")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.loads, o.profiles = strings.Split(*loads, ","), strings.Split(*profiles, ",")
	for _, l := range []struct {
		flag, text string
		into       *[]int
		least      int
	}{{"nodes", *nodes, &o.nodes, 1}, {"pods", *pods, &o.pods, 2}, {"pairs", *pairs, &o.pairs, 0}, {"filter-runs", *filterRuns, &o.filterRuns, 0}} {
		if err := parseNumbers(l.text, l.least, l.into); err != nil {
			return o, fmt.Errorf("-%s: %w", l.flag, err)
		}
	}
	return o, o.check()
}

func parseNumbers(text string, least int, into *[]int) error {
	for _, one := range strings.Split(text, ",") {
		n, err := strconv.Atoi(one)
		if err != nil || n < least {
			return fmt.Errorf("%q: want numbers from %d on, separated by commas", text, least)
		}
		*into = append(*into, n)
	}
	return nil
}

// of returns the value of a list for the i-th number of nodes.
func of(list []int, i int) int { return list[min(i, len(list)-1)] }

func (o *options) check() error {
	switch {
	case !slices.IsSorted(o.nodes):
		return fmt.Errorf("-nodes %v: want ascending numbers", o.nodes)
	case max(len(o.pods), len(o.pairs), len(o.filterRuns)) > len(o.nodes):
		return fmt.Errorf("-pods %v -pairs %v -filter-runs %v: want lists that are no longer than -nodes %v", o.pods, o.pairs, o.filterRuns, o.nodes)
	case o.filterPods <= filterWarmUp || o.warmUp < 0 || o.warmUp == 1:
		return fmt.Errorf("-filter-pods %d -warm-up %d: want more than %d single pods, and 0 or at least 2 to warm up", o.filterPods, o.warmUp, filterWarmUp)
	case o.agents != agentsAlways && o.agents != agentsBerth:
		return fmt.Errorf("-agents: %q: want %s or %s", o.agents, agentsAlways, agentsBerth)
	}
	for _, p := range o.profiles {
		if p != profileChart && p != profileStock {
			return fmt.Errorf("-profiles: %q: want %s or %s", p, profileChart, profileStock)
		}
	}
	for _, l := range o.loads {
		if l != loadOrdinary && l != loadPinned {
			return fmt.Errorf("-loads: %q: want %s or %s", l, loadOrdinary, loadPinned)
		}
	}
	return nil
}

// filterWarmUp is the number of pods of each kind that warm the scheduler up in a run and are not
// counted.
const filterWarmUp = 5
