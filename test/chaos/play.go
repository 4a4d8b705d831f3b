package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// askLimit is how many requests of the driver may wait.
const askLimit = 4096

// play starts the cluster, carries the plan out and checks.
func play(ctx context.Context, o *options, out io.Writer) (err error) {
	fmt.Fprintf(out, "seed %d: %v of faults on %d nodes; SEED=%d replays the plan\n", o.seed, o.duration, o.nodes, o.seed)
	begun := time.Now()
	c, err := startCluster(ctx, o)
	b := &book{out: out, seed: o.seed, counts: map[Kind]int{}, logs: c.logsOf}
	defer func() {
		keep := o.keep || b.count() > 0 || err != nil && ctx.Err() == nil
		err = errors.Join(err, c.stop(keep))
		if keep {
			fmt.Fprintln(out, "logs and checkpoints are kept in", c.dir)
		}
	}()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ready after %.1fs\n", time.Since(begun).Seconds())
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &driver{cluster: c, observer: newObserver(c, b), book: b, out: out, exits: map[string]int{}, asks: make(chan func(context.Context) error, askLimit)}
	go d.askAll(watching)
	defer close(d.asks)
	if err := d.observer.start(watching); err != nil {
		return err
	}
	d.begun = time.Now()
	b.begun = d.begun
	err = d.drive(ctx, NewPlan(o.seed, o.nodes, o.duration), o.duration)
	if err == nil && b.count() < maxViolations {
		err = d.finish(ctx)
	}
	if err != nil {
		return err
	}
	d.table()
	if b.count() > 0 {
		return errViolated
	}
	return nil
}

// logsOf returns the logs that concern the node; "" stands for the schedulers alone.
func (c *cluster) logsOf(node string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"scheduler-0", "scheduler-1", "agent-" + node, "node-" + node} {
		if p := c.procs[name]; p != nil {
			out[name] = p.log
		}
	}
	return out
}

// show prints the line of the moment.
func (d *driver) show() {
	d.mu.Lock()
	defer d.mu.Unlock()
	pending, running := 0, 0
	for _, w := range d.pods {
		switch {
		case w.gone:
		case w.pod.Spec.NodeName == "":
			pending++
		case w.pod.Status.Phase == corev1.PodRunning:
			running++
		}
	}
	t := &d.tally
	faults := 0
	for k, n := range d.book.counts {
		if k != Create && k != Delete && k != ForceDelete {
			faults += n
		}
	}
	fmt.Fprintf(d.out, "%4.0fs  pods %d  running %d  pending %d  ran %d  exact %d+%d  verdict %d  reports %d  faults %d  violations %d\n",
		time.Since(d.begun).Seconds(), t.pods, running, pending, t.ran, t.exact, t.exactDisturbed, t.verdict, t.reports, faults, d.book.count())
}

// table prints what was done and what came of it.
func (d *driver) table() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.mu.Lock()
	defer d.book.mu.Unlock()
	w := tabwriter.NewWriter(d.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "\nWHAT\tCOUNT\t\n")
	for _, k := range slices.Sorted(maps.Keys(d.book.counts)) {
		fmt.Fprintf(w, "%s\t%d\t\n", k, d.book.counts[k])
	}
	struck := 0
	for _, p := range d.procs {
		if p.line != nil {
			p.line.mu.Lock()
			struck += p.line.struck
			p.line.mu.Unlock()
		}
	}
	exits := 0
	for _, n := range d.exits {
		exits += n
	}
	t := &d.tally
	for _, row := range []struct {
		what  string
		count int
		more  string
	}{
		{"requests hit, clients cut", struck, ""},
		{"processes that ended by themselves", exits, fmt.Sprint(d.exits)},
		{"pods", t.pods, ""},
		{"pods that ran", t.ran, ""},
		{"checkpoints checked", t.checkpoints, ""},
		{"reports checked", t.reports, fmt.Sprintf("%d of them not ready, as they said", t.notReady)},
		{"exact placements kept", t.exact + t.exactDisturbed, fmt.Sprintf("%d of them under a fault", t.exactDisturbed)},
		{"exact placements that differ under a fault", t.differedDisturbed, "an assumption about speed was broken"},
		{"placements by verdict", t.verdict, ""},
		{"placements not seen in a checkpoint", t.unseen, ""},
		{"refused again after a kubelet's restart", t.refusedAgain, "admitted before"},
		{"refused for devices after a kubelet's restart", t.refusedUnplugged, "the plugin had not registered again"},
		{"violations", len(d.book.violations), ""},
	} {
		fmt.Fprintf(w, "%s\t%d\t%s\n", row.what, row.count, row.more)
	}
	w.Flush()
	for _, n := range d.book.notes {
		fmt.Fprintln(d.out, "note:", n)
	}
}
