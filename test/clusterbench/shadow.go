package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/usage"
)

// shadowResult is the resource use of shadow mode next to a scheduler.
type shadowResult struct {
	// CPU is processor time per pod in microseconds, from the first Binding to the report of all
	// pods.
	CPU float64 `json:"microsecondsPerPod"`
	// Memory is its largest resident set in bytes.
	Memory int64 `json:"memory"`
	// Judged is how many pods it judged, NotJudged how many it did not.
	Judged    int `json:"judged"`
	NotJudged int `json:"notJudged"`
}

// onlooker is shadow mode as a process.
type onlooker struct {
	*child.Process
	trial.Shadow
	begun time.Duration // processor time before the first Binding
}

// shadow measures shadow mode next to the stock scheduler.
func (b *bench) shadow() error {
	kinds, err := kindsOfCluster()
	if err != nil {
		return err
	}
	if err := b.simulate(kinds, true); err != nil {
		return err
	}
	for i, nodes := range b.options.nodes {
		if err := b.grow(nodes); err != nil {
			return err
		}
		if i == 0 && b.options.warmUp > 0 {
			r, err := b.run(runKey{Nodes: nodes, Load: b.options.loads[0], Profile: b.options.profiles[0], Scheduler: stock}, b.options.warmUp)
			if err != nil {
				return err
			}
			b.say("not counted: %s", r.String())
		}
		b.watched = true
		for pair := range of(b.options.pairs, i) {
			for _, profile := range b.options.profiles {
				for _, load := range b.options.loads {
					if err := b.besideShadow(runKey{Nodes: nodes, Load: load, Profile: profile, Scheduler: stock, Pair: pair}, of(b.options.pods, i)); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// besideShadow runs a load while shadow mode watches.
func (b *bench) besideShadow(key runKey, pods int) error {
	r, err := b.run(key, pods)
	if err != nil {
		return err
	}
	s := r.Shadow
	b.result.Runs = append(b.result.Runs, r)
	b.say("%s; shadow mode %.0f us/pod, peak %d MiB, %d judged, %d not", r.String(), s.CPU, s.Memory>>20, s.Judged, s.NotJudged)
	if 100*s.NotJudged >= s.Judged {
		return fmt.Errorf("shadow mode judged %d pods and did not judge %d: want less than one percent unjudged", s.Judged, s.NotJudged)
	}
	return b.keep()
}

// startShadow starts shadow mode on the processors of API server and nodes.
func (t *testbed) startShadow() (*onlooker, error) {
	program := child.Spec{Log: filepath.Join(t.dir, "shadow.log"), Foreign: true, At: t.places.rest.start, Argv: []string{t.options.scheduler}}
	p, at, err := trial.StartShadow(t.ctx, program, filepath.Join(t.plane.dir, schedulerKubeconfig), fmt.Sprint("--stale-after=", max(time.Minute, 4*t.options.heartbeat)))
	if err != nil {
		return nil, err
	}
	return &onlooker{Process: p, Shadow: at}, nil
}

// tellAll waits until shadow mode has reported all pods.
func (o *onlooker) tellAll(ctx context.Context, r *runResult) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	v, err := o.Settled(ctx)
	if err != nil {
		return fmt.Errorf("shadow mode: %w: %s", err, o.LogTail(1000))
	}
	r.Shadow = &shadowResult{CPU: perPod(usage.CPU(o.Process)-o.begun, r.Bound), Memory: usage.Memory(o.Process, "VmHWM"), Judged: v.Total.Judged}
	for _, n := range v.Total.NotJudged {
		r.Shadow.NotJudged += n
	}
	r.Shadow.NotJudged += v.Open
	return nil
}
