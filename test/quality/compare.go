package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-dev/berth/internal/simulate"
)

// arrive is how many times the GPUs of all nodes pods ask for, as in the published experiment.
const arrive = 1.3

// near is how many percent the default may be behind the best.
const near = 1.0

// judgement counts on how many combinations of load and overlay the default is near the best.
type judgement struct{ near, all int }

// compare plays all strategies on loads and overlays, and judges the default on what was kept.
func (q *quality) compare(ctx context.Context) (j judgement, compared int, err error) {
	all, err := loads(q.from)
	if err != nil {
		return j, 0, err
	}
	for i := range all {
		for k, overlay := range overlays() {
			judged := heldOut(i) || heldOut(k)
			if !q.full && (compared == quickLoads*len(overlays()) && k == 0 || !heldOut(i)) {
				continue
			}
			sums, err := q.combination(ctx, &all[i], overlay)
			if err != nil {
				return j, 0, err
			}
			compared++
			ok := q.table(all[i].name, overlay, judged, sums)
			if judged {
				if j.all++; ok {
					j.near++
				}
			}
		}
	}
	return j, compared / len(overlays()), nil
}

// quickLoads is how many loads are compared without -full: the first that are kept.
const quickLoads = 2

// combination plays all strategies on a load and an overlay, or reads what came of it before.
func (q *quality) combination(ctx context.Context, l *load, overlay string) ([]simulate.Summary, error) {
	file := filepath.Join(q.results, strings.NewReplacer("/", "-", ":", "-").Replace(fmt.Sprintf("%s-%s-%d.json", l.name, overlay, len(q.seeds))))
	var sums []simulate.Summary
	if data, err := os.ReadFile(file); err == nil && q.full {
		return sums, json.Unmarshal(data, &sums)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	o, err := simulate.ParseOverlay(overlay)
	if err != nil {
		return nil, err
	}
	e := simulate.Experiment{Nodes: q.nodes, Pods: l.pods, Strategies: simulate.Strategies(), Seeds: q.seeds, Arrive: arrive}
	if e.Ground, err = simulate.NewNUMA(q.nodes, o); err != nil {
		return nil, err
	}
	runs, err := e.Run(ctx)
	if err != nil {
		return nil, err
	}
	sums = simulate.Summarize(runs)
	data, err := json.Marshal(sums)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(q.results, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file+".new", data, 0o644); err != nil {
		return nil, err
	}
	return sums, os.Rename(file+".new", file)
}

// table prints a combination. It reports whether the default is near the best that does not know the
// load, and near FGD with NUMA nodes, which does.
func (q *quality) table(name, overlay string, judged bool, sums []simulate.Summary) bool {
	kept := ""
	if judged {
		kept = ", kept for the judgement"
	}
	fmt.Fprintf(q.out, "\n### %s, %s%s\n\n| strategy | aligned % | in use %% | pods served %% | refusals per pod | NUMA nodes per pod |\n|---|---|---|---|---|---|\n", name, overlay, kept)
	knows, best, own := map[string]bool{}, 0.0, 0.0
	for _, s := range simulate.Strategies() {
		knows[s.Name] = s.Knows && s.Blind
	}
	for i := range sums {
		s := &sums[i]
		fmt.Fprintf(q.out, "| %s | %.2f ± %.2f | %.2f | %.2f | %.2f | %.2f |\n", s.Strategy, s.Aligned.Mean, s.Aligned.Deviation,
			s.Curve[len(s.Curve)-1].Served.Mean, s.Pods.Mean, s.Refusals.Mean, s.NUMANodes.Mean)
		if s.Strategy == judgedStrategy {
			own = s.Aligned.Mean
		}
		if !knows[s.Strategy] {
			best = max(best, s.Aligned.Mean)
		}
	}
	return own >= best-near
}

// judgedStrategy is the default.
const judgedStrategy = "Berth"
