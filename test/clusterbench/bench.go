package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bench is one call of the program.
type bench struct {
	ctx     context.Context
	cancel  context.CancelFunc
	verb    string
	options options
	places  split
	dir     string // removed at the end
	stderr  io.Writer
	plane   *plane
	fleet   *fleet
	leave   context.CancelFunc // ends the fleet
	runs    int
	result  result
}

// result is what is printed and kept as JSON.
type result struct {
	Machine string    `json:"machine"`
	Options string    `json:"options"`
	Begun   time.Time `json:"begun"`
	// LoadAverage is the machine's at the beginning and at the end.
	LoadAverage [2]string `json:"loadAverage"`

	Runs   []runResult    `json:"runs,omitempty"`
	Ratios []ratioResult  `json:"ratios,omitempty"`
	Gangs  []gangRatio    `json:"gangs,omitempty"`
	Filter []filterResult `json:"filter,omitempty"`
	Writes *writesResult  `json:"writes,omitempty"`
	Ways   []*way         `json:"ways,omitempty"`
}

func newBench(ctx context.Context, verb string, o options, stderr io.Writer) (_ *bench, err error) {
	b := &bench{verb: verb, options: o, stderr: stderr}
	b.ctx, b.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	b.result = result{Machine: fmt.Sprintf("%d CPUs, %s", runtime.NumCPU(), runtime.GOARCH), Options: fmt.Sprint(os.Args[1:]), Begun: time.Now(), LoadAverage: [2]string{loadAverage()}}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return nil, err
		}
	}
	if b.places, err = wholeMachine(); err != nil {
		return nil, err
	}
	if o.apart {
		err = b.places.apart()
	}
	if o.first {
		err = b.places.first()
	}
	if err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "clusterbench-"); err != nil {
		return nil, err
	}
	return b, b.start()
}

// start starts a control plane.
func (b *bench) start() error {
	dir, err := os.MkdirTemp(b.dir, "")
	if err != nil {
		return err
	}
	if b.plane, err = startPlane(b.ctx, dir, b.places.rest); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: podNamespace}}
	if _, err = b.plane.core.CoreV1().Namespaces().Create(b.ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	if slices.Contains(b.options.profiles, profileStock) {
		if err := b.createApps(); err != nil {
			return fmt.Errorf("create ReplicaSets and Services: %w", err)
		}
	}
	return b.hold(true)
}

// simulate starts the nodes' simulator.
func (b *bench) simulate(kinds []*nodeKind) error {
	var ctx context.Context
	ctx, b.leave = context.WithCancel(b.ctx)
	b.fleet = newFleet(b.plane, kinds)
	if err := b.fleet.run(ctx); err != nil {
		return err
	}
	if b.verb == verbCluster || b.verb == verbGangs {
		go b.fleet.pulse(ctx, b.options.heartbeat)
	}
	return nil
}

// renew starts over on another control plane, with so many nodes.
func (b *bench) renew(kinds []*nodeKind, nodes int) error {
	b.leave()
	if err := b.plane.Stop(); err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	if err := b.simulate(kinds); err != nil {
		return err
	}
	return b.populate(nodes, true)
}

func (b *bench) grow(nodes int) error {
	begun := time.Now()
	if err := b.fleet.grow(b.ctx, nodes); err != nil {
		return fmt.Errorf("make %d nodes: %w", nodes, err)
	}
	b.say("%d nodes after %v", nodes, time.Since(begun).Round(time.Second))
	return nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// close ends everything.
func (b *bench) close() {
	b.cancel()
	if b.plane != nil {
		if err := b.plane.Stop(); err != nil {
			b.say("%v", err)
		}
	}
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

// finish prints the result and keeps it as JSON.
func (b *bench) finish(stdout io.Writer) error {
	err := b.keep()
	b.result.print(stdout)
	if b.options.out != "" {
		fmt.Fprintln(stdout, "\nJSON:", b.file())
	}
	if b.options.floors {
		err = errors.Join(err, b.result.conclude(stdout))
	}
	return err
}

func (b *bench) file() string { return filepath.Join(b.options.out, b.verb+".json") }

// keep writes what has been measured so far.
func (b *bench) keep() error {
	b.result.LoadAverage[1] = loadAverage()
	b.result.Ratios, b.result.Gangs = compare(b.result.Runs), compareGangs(b.result.Runs)
	data, err := json.MarshalIndent(b.result, "", "  ")
	if err != nil || b.options.out == "" {
		return err
	}
	return os.WriteFile(b.file(), append(data, '\n'), 0o644)
}

// cluster measures both schedulers on clusters of growing size.
func (b *bench) cluster() error {
	kinds, err := kindsOfCluster()
	if err != nil {
		return err
	}
	if err := b.simulate(kinds); err != nil {
		return err
	}
	for i, nodes := range b.options.nodes {
		if err := b.populate(nodes, i == 0); err != nil {
			return err
		}
		pods := of(b.options.pods, i)
		for pair := range of(b.options.pairs, i) {
			if pair > 0 && b.options.fresh {
				if err := b.renew(kinds, nodes); err != nil {
					return err
				}
			}
			for _, profile := range b.options.profiles {
				for _, load := range b.options.loads {
					if err := b.pair(runKey{Nodes: nodes, Load: load, Profile: profile, Pair: pair}, pods); err != nil {
						return err
					}
				}
			}
		}
		if err := b.filter(nodes, pods, of(b.options.filterRuns, i)); err != nil {
			return err
		}
	}
	return nil
}

// populate makes the nodes, and warms up where the control plane is new.
func (b *bench) populate(nodes int, fresh bool) error {
	if err := b.grow(nodes); err != nil || !fresh || b.options.warmUp == 0 {
		return err
	}
	return b.warmUp(nodes)
}

// warmUp makes both schedulers run once without counting: the database, the API server's caches and
// the simulator have grown to their size afterwards.
func (b *bench) warmUp(nodes int) error {
	for _, who := range inTurn(0) {
		r, err := b.run(runKey{Nodes: nodes, Load: b.options.loads[0], Profile: b.options.profiles[0], Scheduler: who}, b.options.warmUp)
		if err != nil {
			return err
		}
		b.say("not counted: %s", r.String())
	}
	return nil
}

// inTurn returns both schedulers in the order of the i-th pair: A B, B A, A B, ..., so that neither
// gains by being second.
func inTurn(i int) []contestant {
	if i%2 == 1 {
		return []contestant{berth, stock}
	}
	return []contestant{stock, berth}
}

// pair measures both schedulers in turn.
func (b *bench) pair(key runKey, pods int) error {
	for _, who := range inTurn(key.Pair) {
		key.Scheduler = who
		r, err := b.run(key, pods)
		if err != nil {
			return err
		}
		b.result.Runs = append(b.result.Runs, r)
		b.say("%s", r.String())
		if err := b.keep(); err != nil {
			return err
		}
	}
	return nil
}
