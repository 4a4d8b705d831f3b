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
	"github.com/berth-dev/berth/lab"
)

// arrive is the ratio of the requested GPUs to the GPUs of all nodes, as in the published
// experiment.
const arrive = 1.3

// near is how far, in percent, the default may be behind the best strategy.
const near = 1.0

// judgement counts on how many combinations of load and overlay the default is near the best.
type judgement struct{ near, all int }

// compare runs all strategies on loads and overlays, and judges the default on the held-out
// combinations.
func (q *quality) compare(ctx context.Context) (j judgement, compared int, err error) {
	all, err := loads(q.from)
	if err != nil {
		return j, 0, err
	}
	for i := range all {
		for k, overlay := range overlays() {
			judged := heldOut(i) || heldOut(k)
			if !q.full && (!heldOut(i) || compared == quickLoads*quickOverlays || !strings.HasSuffix(overlay, quickPolicy)) {
				continue
			}
			sums, err := q.combination(ctx, &all[i], overlay)
			if err != nil {
				return j, 0, err
			}
			compared++
			ok := q.table(all[i].name, overlay, judged, sums)
			q.rows = append(q.rows, matrixRow{all[i].name + ", " + overlay, judged, sums})
			if judged {
				if j.all++; ok {
					j.near++
				}
			}
		}
	}
	q.matrix()
	if !q.full {
		return j, compared / quickOverlays, nil
	}
	return j, compared / len(overlays()), nil
}

// Without -full, only the first held-out loads and the overlays of one policy are compared.
const (
	quickLoads    = 2
	quickOverlays = 2
	quickPolicy   = "/restricted"
)

// combination runs all strategies on a load and an overlay, or reads an earlier result.
func (q *quality) combination(ctx context.Context, l *load, overlay string) ([]simulate.Summary, error) {
	return q.resumed(fmt.Sprintf("%s-%s-%d", l.name, overlay, len(q.seeds)), lab.Strategies(), func() ([]simulate.Summary, error) {
		return play(ctx, simulate.Experiment{Nodes: q.nodes, Pods: l.pods, Seeds: q.seeds, Arrive: lab.Arrive(q.nodes, l.pods, arrive)}, overlay)
	})
}

// play runs all strategies on an overlay.
func play(ctx context.Context, e simulate.Experiment, overlay string) ([]simulate.Summary, error) {
	o, err := lab.ParseOverlay(overlay)
	if err != nil {
		return nil, err
	}
	e.Strategies = lab.Strategies()
	if e.Ground, err = lab.NewNUMA(e.Nodes, lab.Overlays{Rest: &o}); err != nil {
		return nil, err
	}
	runs, err := e.Run(ctx)
	return simulate.Summarize(runs), err
}

// resumed runs strategies and saves the result, or reads an earlier result.
func (q *quality) resumed(name string, all []simulate.Strategy, play func() ([]simulate.Summary, error)) ([]simulate.Summary, error) {
	file := filepath.Join(q.results, strings.NewReplacer("/", "-", ":", "-").Replace(name)+".json")
	if sums, err := q.before(file, all); err != nil || sums != nil {
		return sums, err
	}
	sums, err := play()
	if err != nil {
		return nil, err
	}
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

// before reads the result of an earlier call that this one continues; nil if it has other
// strategies.
func (q *quality) before(file string, all []simulate.Strategy) (sums []simulate.Summary, err error) {
	data, err := os.ReadFile(file)
	if !q.full || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &sums)
	}
	if err != nil || len(sums) != len(all) {
		return nil, err
	}
	for i := range sums {
		if sums[i].Strategy != all[i].Name {
			return nil, nil
		}
	}
	return sums, nil
}

// table prints a combination. It reports whether the default is near the best strategy, including
// strategies that know the load.
func (q *quality) table(name, overlay string, judged bool, sums []simulate.Summary) bool {
	kept := ""
	if judged {
		kept = ", kept for the judgement"
	}
	fmt.Fprintf(q.out, "\n### %s, %s%s\n\n| strategy | aligned %% | in use %% | pods served %% | refusals per pod | NUMA nodes per pod |\n|---|---|---|---|---|---|\n", name, overlay, kept)
	all, best, own := lab.Strategies(), 0.0, 0.0
	for i := range sums {
		s := &sums[i]
		fmt.Fprintf(q.out, "| %s | %.2f ± %.2f | %.2f | %.2f | %.2f | %.2f |\n", s.Strategy, s.Aligned.Mean, s.Aligned.Deviation,
			s.Curve[len(s.Curve)-1].Served.Mean, s.Pods.Mean, s.Refusals.Mean, s.NUMANodes.Mean)
		if s.Strategy == judgedStrategy {
			own = s.Aligned.Mean
		}
		if measures(&all[i]) {
			best = max(best, s.Aligned.Mean)
		}
	}
	return own >= best-near
}

// measures reports whether the default is compared with a strategy. A strategy that refuses pods
// that fit is only shown for comparison.
func measures(s *simulate.Strategy) bool { return s.Keep == nil }

// matrix prints the aligned parts of all combinations, strategies side by side. The best strategy
// that does not know the load and has no rule that refuses pods is bold. A star marks held-out
// combinations.
func (q *quality) matrix() {
	all := lab.Strategies()
	fmt.Fprintf(q.out, "\n### All\n\n| load, overlay |")
	for i := range all {
		fmt.Fprintf(q.out, " %s |", all[i].Name)
	}
	fmt.Fprintf(q.out, "\n|---%s|\n", strings.Repeat("|---", len(all)))
	for i := range q.rows {
		r, best := &q.rows[i], 0.0
		for k := range r.sums {
			if measures(&all[k]) && !all[k].Knows {
				best = max(best, r.sums[k].Aligned.Mean)
			}
		}
		star := ""
		if r.judged {
			star = " *"
		}
		fmt.Fprintf(q.out, "| %s%s |", r.name, star)
		for k := range r.sums {
			bold := ""
			if r.sums[k].Aligned.Mean == best && measures(&all[k]) && !all[k].Knows {
				bold = "**"
			}
			fmt.Fprintf(q.out, " %s%.1f%s |", bold, r.sums[k].Aligned.Mean, bold)
		}
		fmt.Fprintln(q.out)
	}
}

// judgedStrategy is the default.
const judgedStrategy = "Berth"
