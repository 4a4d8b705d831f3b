package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/berth-dev/berth/lab"
)

// result is the last line of the output.
type result struct {
	Full      bool `json:"full"`
	Published int  `json:"published"`
	Within    int  `json:"within"`
	Loads     int  `json:"loads"`
	Seeds     int  `json:"seeds"`
	// Near is the percentage of judged combinations in which the default is the best, or within one
	// percent of it.
	Near float64 `json:"bestOrWithin1Percent"`
	Gap  float64 `json:"gapToOptimumPercent"`
}

// The goals, and the number of instances.
const (
	wantGap   = 3.0
	instances = 200 // with 40, the mean is wrong by a percent or more
)

func main() {
	q := quality{out: os.Stdout, instances: instances}
	count, onlyTimed := 0, false
	flag.StringVar(&q.from, "from", "../shared/realdata/traces/openb", "folder with the lists and the published results")
	flag.StringVar(&q.results, "results", "_artifacts/quality", "folder for results; -full continues with existing results")
	flag.BoolVar(&q.full, "full", false, "all lists and ten seeds")
	flag.BoolVar(&onlyTimed, "timed", false, "only the tables of pods that arrive and end")
	flag.IntVar(&count, "seeds", 0, "how many seeds; 0 is 2, and 10 with -full")
	flag.Parse()
	q.seeds = seeds(q.seedsOf(count))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if onlyTimed {
		failed(q.readNodes())
		failed(q.timed(ctx))
		return
	}
	r, err := q.measure(ctx)
	failed(err)
	line, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	fmt.Printf("\n%s\n", line)
	if short := r.short(); short != nil {
		fmt.Fprintln(os.Stderr, "quality falls short:", short)
		os.Exit(1)
	}
}

// failed ends the program after an error.
func failed(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

func (q *quality) readNodes() (err error) {
	q.nodes, err = readList(filepath.Join(q.from, "openb_node_list_gpu_node.csv.gz"), lab.ReadNodes)
	return err
}

func (q *quality) seedsOf(count int) int {
	switch {
	case count > 0:
		return count
	case q.full:
		return 10
	}
	return 2
}

func (q *quality) measure(ctx context.Context) (r result, err error) {
	if err := q.readNodes(); err != nil {
		return r, err
	}
	r.Full, r.Seeds = q.full, len(q.seeds)
	own, first, err := q.optimum(ctx)
	if err != nil {
		return r, err
	}
	if first.mean <= 0 {
		return r, errors.New("first fit reaches the optimum: the instances are too easy")
	}
	r.Gap = math.Round(own.mean*100) / 100
	if r.Published, r.Within, err = q.published(ctx); err != nil {
		return r, err
	}
	j, loads, err := q.compare(ctx)
	if err != nil {
		return r, err
	}
	if err := q.timed(ctx); err != nil {
		return r, err
	}
	r.Loads, r.Near = loads, math.Round(1000*float64(j.near)/float64(max(1, j.all)))/10
	return r, nil
}

// short returns an error that names the figures that miss their goals.
func (r *result) short() error {
	var all []error
	if least := r.Published * 66 / 72; r.Within < least {
		all = append(all, fmt.Errorf("%d of %d published means are within: want %d", r.Within, r.Published, least))
	}
	if r.Near < 100 {
		all = append(all, fmt.Errorf("the default is within one percent of the best in %.1f percent of the judged combinations: want 100", r.Near))
	}
	if r.Gap > wantGap {
		all = append(all, fmt.Errorf("the default is %.2f percent behind the optimum: want at most %.0f", r.Gap, wantGap))
	}
	return errors.Join(all...)
}
