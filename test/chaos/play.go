package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// askLimit is how many requests of the driver may wait.
const askLimit = 4096

// play starts the cluster, carries the plan out and checks.
func play(ctx context.Context, o *options, out io.Writer) (err error) {
	fmt.Fprintf(out, "seed %d: %v of faults on %d nodes; SEED=%d replays the plan\n", o.seed, o.duration, o.nodes, o.seed)
	begun := time.Now()
	c, err := startCluster(ctx, o)
	b := &book{out: out, seed: o.seed, each: o.each, counts: map[Kind]int{}, logs: c.logsOf}
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
	d := &driver{cluster: c, observer: newObserver(c, b), book: b, out: out, exits: map[string]int{}, shadow: looker{told: map[string]bool{}}, said: outcomes{told: map[string]bool{}}, asks: make(chan func(context.Context) error, askLimit)}
	go d.askAll(watching)
	defer close(d.asks)
	if err := d.observer.start(watching); err != nil {
		return err
	}
	return d.run(ctx, o)
}

// run carries the plan out while the tenant does harm, and checks the final state.
func (d *driver) run(ctx context.Context, o *options) error {
	d.begun = time.Now()
	d.book.begun = d.begun
	plan := NewPlan(o.seed, o.nodes, o.duration)
	fmt.Fprintf(d.out, "%d operations are planned; the plan's hash is %08x\n", len(plan), hashOf(plan))
	end, err := d.letLoose(ctx, o.seed)
	if err != nil {
		return err
	}
	err = d.drive(ctx, plan, o.duration)
	end(ctx)
	if err == nil && d.book.count() < maxViolations {
		err = d.finish(ctx)
	}
	if err != nil {
		return err
	}
	d.table()
	if d.book.count() > 0 {
		return errViolated
	}
	return nil
}

// hashOf returns a hash of the plan.
func hashOf(plan []Op) uint32 {
	h := fnv.New32a()
	for _, o := range plan {
		fmt.Fprintln(h, o)
	}
	return h.Sum32()
}

func total[K comparable](counts map[K]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// table prints the actions and their results.
func (d *driver) table() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.mu.Lock()
	defer d.book.mu.Unlock()
	w := tabwriter.NewWriter(d.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "\nDONE\tCOUNT\tTO\n")
	for _, k := range slices.Sorted(maps.Keys(d.book.counts)) {
		fmt.Fprintf(w, "%s\t%d\t%s\n", k, d.book.counts[k], d.book.targets(k))
	}
	fmt.Fprintf(w, "\nSEEN\tCOUNT\t\n")
	for _, row := range d.seen() {
		fmt.Fprintf(w, "%s\t%d\t%s\n", row.what, row.count, row.more)
	}
	w.Flush()
	for _, n := range d.book.notes {
		fmt.Fprintln(d.out, "note:", n)
	}
}

// row is a line of the table: an event, its count, and details.
type row struct {
	what  string
	count int
	more  string
}

// seen returns the lines about the results. The caller holds mu of observer and of book.
func (d *driver) seen() []row {
	struck := 0
	for _, p := range d.procs {
		if p.way != nil {
			struck += p.way.hits()
		}
	}
	t, found := &d.tally, sum(d.shadow.before, d.shadow.last.Total)
	return []row{
		{"requests hit, clients cut", struck, ""},
		{"new leaders", max(0, t.leaders-1), ""},
		{"processes that ended by themselves", total(d.exits), fmt.Sprint(d.exits)},
		{"pods", t.pods, ""},
		{"pods that ran", t.ran, ""},
		{"gangs that were whole", t.gangs, ""},
		{"requests of the tenant", t.attempts, t.tenantLine()},
		{"pods of others", t.foreign, fmt.Sprintf("%d of them refused by kubelets", t.refused.foreign)},
		{"checkpoints checked", t.checkpoints, ""},
		{"reports checked", t.reports, fmt.Sprintf("%d of them not ready, as they said", t.notReady)},
		{"exact placements kept", t.placed.exact + t.placed.exactDisturbed, fmt.Sprintf("%d of them under a fault", t.placed.exactDisturbed)},
		{"exact placements that differ under a fault", t.placed.differedDisturbed, "an assumption about speed was broken"},
		{"exact placements that differ, contended", t.placed.differedContended, "a pod of others came between"},
		{"exact placements that differ, overtaken", t.placed.differedVanished, "a pod before it was deleted before it ran"},
		{"placements by verdict", t.placed.verdict, ""},
		{"decisions carried out where Berth decides", t.placed.obeyed, fmt.Sprintf("held against %d looks at cgroups", t.looks)},
		{"placements not seen in a checkpoint", t.placed.unseen, ""},
		{"refused again after a kubelet's restart", t.refused.again, "admitted before"},
		{"refused for devices after a kubelet's restart", t.refused.unplugged, "the plugin had not registered again"},
		{"refused for what ended pods held", t.refused.unswept, "the kubelet had restarted and not cleared it away"},
		{"refused for a pod that came back", t.refused.returned, "the kubelet had let go of that one, and forgotten why"},
		{"kubelets killed between two writes", t.torn, "the checkpoint was removed that the agent names"},
		{"admitted again after a kubelet's restart", t.readmitted, "the kubelet had let go of them, and forgotten why"},
		{"refused, contended", t.refused.contended, "a pod of others came between"},
		{"not kept by the scheduler's own account", total(t.outcomes), fmt.Sprint(t.outcomes)},
		{"judged by shadow mode", found.Judged, fmt.Sprintf("%d exact, %d rejections foretold of %d, in %d lives", found.Exact, found.Foretold, found.Rejected, d.shadow.lives)},
		{"not judged by shadow mode", total(found.NotJudged), reasons(found.NotJudged)},
		{"promises that shadow mode saw broken", t.mistakes, "each is excused above"},
		{"VIOLATIONS", len(d.book.violations), fmt.Sprintf("seed %d", d.book.seed)},
	}
}
