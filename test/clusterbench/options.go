package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// options are the flags of every verb.
type options struct {
	nodes []int // ascending
	pods  int
	pairs int
	// filterRuns is how often each scheduler is asked for the time of Filter.
	filterRuns int
	loads      []string
	agents     string
	scheduler  string
	out        string
	heartbeat  time.Duration
	length     time.Duration
	profile    bool
}

// Who runs agents.
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
	f.IntVar(&o.pods, "pods", 10000, "pods of one run")
	f.IntVar(&o.pairs, "pairs", 5, "pairs of runs")
	f.IntVar(&o.filterRuns, "filter-runs", 3, "runs of either scheduler that measure Filter, with 110 pods each; 0 for none")
	f.StringVar(&o.agents, "agents", agentsAlways, "always: agents report under both schedulers, so that only these differ; berth: under Berth alone")
	f.StringVar(&o.scheduler, "scheduler", "bin/berth-scheduler", "the program berth-scheduler")
	f.StringVar(&o.out, "out", "", "folder for the JSON result, logs and profiles")
	f.DurationVar(&o.heartbeat, "heartbeat", 10*time.Second, "interval of every agent's heartbeat")
	f.DurationVar(&o.length, "length", time.Minute, "how long writes are generated")
	f.BoolVar(&o.profile, "profile", false, "keep CPU profiles of the schedulers")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.loads = strings.Split(*loads, ",")
	for _, text := range strings.Split(*nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || len(o.nodes) > 0 && n <= o.nodes[len(o.nodes)-1] {
			return o, fmt.Errorf("-nodes: %q: want positive numbers, ascending", *nodes)
		}
		o.nodes = append(o.nodes, n)
	}
	return o, o.check()
}

func (o *options) check() error {
	switch {
	case o.pods < 2 || o.pairs < 0 || o.filterRuns < 0:
		return fmt.Errorf("-pods %d -pairs %d -filter-runs %d: want at least 2 pods and nothing negative", o.pods, o.pairs, o.filterRuns)
	case o.agents != agentsAlways && o.agents != agentsBerth:
		return fmt.Errorf("-agents: %q: want %s or %s", o.agents, agentsAlways, agentsBerth)
	}
	for _, l := range o.loads {
		if l != loadOrdinary && l != loadPinned {
			return fmt.Errorf("-loads: %q: want %s or %s", l, loadOrdinary, loadPinned)
		}
	}
	return nil
}
