package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/lab"
)

// published repeats the published results, list by list. It returns the number of means, and how
// many agree. Without -full, a mean agrees if it is not FarOff.
func (q *quality) published(ctx context.Context) (means, within int, err error) {
	rows, err := readList(filepath.Join(q.from, "published_allocation.csv"), func(r io.Reader, _ string) ([][]string, error) { return csv.NewReader(r).ReadAll() })
	if err != nil {
		return 0, 0, err
	}
	lists := q.lists(rows[1:])
	fmt.Fprintf(q.out, "\n## Published results, and results here\n\n| list, at 100 / 130 percent arrived | strategy | published | here | within |\n|---|---|---|---|---|\n")
	for _, row := range rows[1:] {
		if !slices.Contains(lists, row[0]) {
			continue
		}
		_, strategy, _ := strings.Cut(row[1], "-")
		curve, err := q.repeat(ctx, row[0], strategy)
		if err != nil {
			return 0, 0, err
		}
		deviation := number(row[len(row)-1])
		var theirs, ours []string
		all := true
		for _, at := range []int{100, 130} {
			want, got := number(row[slices.Index(rows[0], "arrived"+strconv.Itoa(at))]), curve[at/10-1].Served.Mean
			ok := math.Abs(got-want) <= lab.FarOff && (!q.full || lab.IsWithin(got, want, deviation, len(q.seeds)))
			if means++; ok {
				within++
			}
			all = all && ok
			theirs, ours = append(theirs, fmt.Sprintf("%.2f", want)), append(ours, fmt.Sprintf("%.2f", got))
		}
		fmt.Fprintf(q.out, "| %s | %s | %s | %s | %t |\n", row[0], strategy, strings.Join(theirs, " / "), strings.Join(ours, " / "), all)
	}
	return means, within, nil
}

// lists returns the lists in the rows; without -full only the first two.
func (q *quality) lists(rows [][]string) (lists []string) {
	for _, row := range rows {
		if !slices.Contains(lists, row[0]) {
			lists = append(lists, row[0])
		}
	}
	if !q.full {
		lists = lists[:min(2, len(lists))]
	}
	return lists
}

// repeat runs a strategy on a list, without NUMA nodes.
func (q *quality) repeat(ctx context.Context, list, strategy string) ([]simulate.Point, error) {
	pods, err := readList(filepath.Join(q.from, "openb_pod_list_"+list+".csv.gz"), lab.ReadPods)
	if err != nil {
		return nil, err
	}
	s, err := lab.StrategiesOf(strategy)
	if err != nil {
		return nil, err
	}
	e := simulate.Experiment{Nodes: q.nodes, Pods: pods, Strategies: s, Seeds: q.seeds, Arrive: lab.Arrive(q.nodes, pods, arrive)}
	sums, err := q.resumed(fmt.Sprintf("published-%s-%s-%d", list, strategy, len(q.seeds)), s, func() ([]simulate.Summary, error) {
		runs, err := e.Run(ctx)
		return simulate.Summarize(runs), err
	})
	if err != nil {
		return nil, err
	}
	return sums[0].Curve, nil
}

func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		fmt.Fprintf(os.Stderr, "quality: published_allocation.csv: %q: want a number\n", text)
		os.Exit(1)
	}
	return v
}
