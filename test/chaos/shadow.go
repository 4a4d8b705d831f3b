package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/scheduler/witness"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/test/trial"
)

// shadowName is the process in shadow mode.
const shadowName = "shadow"

// startShadow starts shadow mode with its own rights.
func (c *cluster) startShadow(ctx context.Context) error {
	config, err := controlplane.Account{Namespace: "berth-system", Name: "berth-shadow"}.Config(ctx, c.admin, "")
	if err != nil {
		return err
	}
	p := &process{name: shadowName}
	var path string
	if p.way, path, err = c.lineFor(p.name, config, ""); err != nil {
		return err
	}
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	p.Part = c.run(p.name, witness.Verb, "--kubeconfig="+path, fmt.Sprint("--listen=127.0.0.1:", port))
	p.Port = port
	return c.add(p)
}

// looker collects the findings of shadow mode, which loses them when it is killed.
type looker struct {
	life   time.Time // the start of the process that gave the last findings
	last   shadow.View
	before shadow.Tally // of earlier processes
	lives  int
	told   map[string]bool // UIDs of known mistakes
	// mistakes are judged after their pods have been observed long enough.
	mistakes []mistake
}

// mistake is a prediction that shadow mode counts as wrong, with the time at which it was read.
type mistake struct {
	read time.Time
	shadow.Record
}

// lookAtShadow reads the findings of shadow mode, which may be down or stopped.
func (d *driver) lookAtShadow(ctx context.Context) {
	p, l := d.procs[shadowName], &d.shadow
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	life := p.Since()
	v, err := trial.ShadowAt(p.Port).View(ctx)
	if err != nil || life.IsZero() || life != p.Since() {
		return
	}
	if life != l.life {
		l.before = sum(l.before, l.last.Total)
		l.life, l.last, l.lives = life, shadow.View{}, l.lives+1
	}
	l.last = v
	if t := &v.Total; t.Pods != t.Judged+total(t.NotJudged)+v.Open {
		d.book.violate(fmt.Sprintf("shadow mode: %d pods, and %d judged, %d not judged and %d open", t.Pods, t.Judged, total(t.NotJudged), v.Open), "")
	}
	for i := range v.Pods {
		if r := &v.Pods[i]; r.Result.Mistaken() && !l.told[r.UID] {
			l.told[r.UID] = true
			l.mistakes = append(l.mistakes, mistake{time.Now(), *r})
		}
	}
}

// sum adds the counts that are printed at the end.
func sum(a, b shadow.Tally) shadow.Tally {
	a.Pods, a.Judged, a.Rejected, a.Foretold = a.Pods+b.Pods, a.Judged+b.Judged, a.Rejected+b.Rejected, a.Foretold+b.Foretold
	a.Exact, a.ByVerdict, a.Either = a.Exact+b.Exact, a.ByVerdict+b.ByVerdict, a.Either+b.Either
	a.Wrong, a.Missed, a.FalseAlarms = a.Wrong+b.Wrong, a.Missed+b.Missed, a.FalseAlarms+b.FalseAlarms
	all := map[shadow.Reason]int{}
	for _, of := range []map[shadow.Reason]int{a.NotJudged, b.NotJudged} {
		for reason, n := range of {
			all[reason] += n
		}
	}
	a.NotJudged = all
	return a
}

// judgeMistakes judges the mistakes of shadow mode that were read up to a time. A mistake is
// excused if it concerns a promise of the scheduler that is excused.
func (d *driver) judgeMistakes(until time.Time) {
	l := &d.shadow
	n := 0
	for ; n < len(l.mistakes) && l.mistakes[n].read.Before(until); n++ {
		d.observer.mistaken(&l.mistakes[n].Record)
	}
	l.mistakes = l.mistakes[n:]
}

// mistaken judges a prediction that shadow mode counts as wrong.
func (o *observer) mistaken(r *shadow.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.pods[types.UID(r.UID)]
	text := fmt.Sprintf("shadow mode: pod %s on %s is %s: expected %+v, got %+v", r.Name, r.Node, r.Result, r.Expected, r.Got)
	switch {
	case w == nil:
		o.book.violate(text, r.Node)
	case w.foreign || w.excuse == "":
		o.book.violate(text, r.Node, o.evidence(w)...)
	default:
		o.tally.mistakes++
		o.book.note(text + ": " + w.excuse)
	}
}

// shadowLeft returns the pods that still wait for an answer in shadow mode.
func (d *driver) shadowLeft(ctx context.Context) string {
	d.lookAtShadow(ctx)
	if v := &d.shadow.last; v.Open > 0 {
		return fmt.Sprintf("shadow mode: %d pods have no answer", v.Open)
	}
	return ""
}

// reasons are the reasons for which pods were not judged, by name.
func reasons(all map[shadow.Reason]int) string {
	var out []string
	for _, r := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprint(r, " ", all[r]))
	}
	return strings.Join(out, ", ")
}
