package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	stage   stage              // what the control plane is for
	runs    int
	result  result
}

// result is what is printed and kept as JSON.
type result struct {
	Machine string `json:"machine"`
	Options string `json:"options"`
	// Programs are a digest of this program and of the scheduler.
	Programs string    `json:"programs,omitempty"`
	Begun    time.Time `json:"begun"`
	// LoadAverage is the machine's at the beginning and at the end.
	LoadAverage [2]string `json:"loadAverage"`
	// Seconds are where the time went, by what was done, and Calls how many calls of the program it
	// took.
	Seconds map[string]float64 `json:"seconds,omitempty"`
	Calls   int                `json:"calls,omitempty"`

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
		if err := b.resume(); err != nil {
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
	defer b.took("control plane", time.Now())
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

// renew starts over on another control plane.
func (b *bench) renew(kinds []*nodeKind) error {
	b.leave()
	if err := b.plane.Stop(); err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	return b.simulate(kinds)
}

func (b *bench) grow(nodes int) error {
	begun := time.Now()
	defer b.took("nodes", begun)
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

// resume takes over what earlier calls with the same flags and programs have measured. It drops
// half a pair.
func (b *bench) resume() error {
	if err := os.MkdirAll(b.options.out, 0o755); err != nil {
		return err
	}
	if b.verb != verbCluster {
		return nil
	}
	programs, err := digest(b.options.scheduler)
	if err != nil {
		return err
	}
	b.result.Programs = programs
	data, err := os.ReadFile(b.file())
	if errors.Is(err, fs.ErrNotExist) {
		b.result.Calls = 1
		return nil
	}
	var before result
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err != nil {
		return fmt.Errorf("what was measured before: %s: %w", b.file(), err)
	}
	before.Runs = slices.DeleteFunc(before.Runs, func(r runResult) bool { return !before.has(r.runKey, r.Pods) })
	b.result = before
	b.result.Calls++
	b.say("going on with %s, which has %d pairs; remove it to begin again", b.file(), len(before.Runs)/2)
	return nil
}

// file is the result as JSON. A comparison of schedulers has one for each set of flags and
// programs, so that calls with others leave it alone.
func (b *bench) file() string {
	if b.result.Programs == "" {
		return filepath.Join(b.options.out, b.verb+".json")
	}
	key := sha256.Sum256([]byte(b.result.Programs + b.result.Options))
	return filepath.Join(b.options.out, fmt.Sprintf("%s-%x.json", b.verb, key[:4]))
}

// keep writes what has been measured so far.
func (b *bench) keep() error {
	b.result.LoadAverage[1] = loadAverage()
	b.result.Ratios, b.result.Gangs = compare(b.result.Runs), compareGangs(b.result.Runs)
	data, err := json.MarshalIndent(b.result, "", "  ")
	if err != nil || b.options.out == "" {
		return err
	}
	if err := os.WriteFile(b.file()+".new", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(b.file()+".new", b.file())
}

// has says whether the runs of both schedulers that make a pair are there.
func (r *result) has(pair runKey, pods int) bool {
	return !slices.ContainsFunc(inTurn(0), func(who contestant) bool {
		pair.Scheduler = who
		return !slices.ContainsFunc(r.Runs, func(o runResult) bool { return o.runKey == pair && o.Pods == pods })
	})
}

// took notes what time was spent on.
func (b *bench) took(what string, since time.Time) {
	if b.result.Seconds == nil {
		b.result.Seconds = map[string]float64{}
	}
	b.result.Seconds[what] += time.Since(since).Seconds()
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
	for i := range b.options.nodes {
		for pair := range of(b.options.pairs, i) {
			if err := b.pairs(kinds, i, pair); err != nil {
				return err
			}
		}
		if err := b.filter(kinds, i); err != nil {
			return err
		}
	}
	return nil
}

// stage is what a control plane is for: an entry of options.nodes, and, with options.fresh, one of
// the pairs, from 1 on; none at first.
type stage struct{ size, pair int }

// enter makes the nodes of a stage. A control plane that is new is warmed up.
func (b *bench) enter(kinds []*nodeKind, at stage) error {
	fresh := b.stage == stage{}
	switch {
	case b.stage == at:
		return nil
	case b.options.fresh && !fresh:
		if err := b.renew(kinds); err != nil {
			return err
		}
		fresh = true
	}
	b.stage = at
	nodes := b.options.nodes[at.size]
	if err := b.grow(nodes); err != nil || !fresh || b.options.warmUp == 0 {
		return err
	}
	return b.warmUp(nodes)
}

// pairs measures a pair of each profile and load, except for what has been measured before.
func (b *bench) pairs(kinds []*nodeKind, size, pair int) error {
	for _, profile := range b.options.profiles {
		for _, load := range b.options.loads {
			key := runKey{Nodes: b.options.nodes[size], Load: load, Profile: profile, Pair: pair}
			pods := of(b.options.pods, size)
			if b.result.has(key, pods) {
				continue
			}
			at := stage{size, 1}
			if b.options.fresh {
				at.pair += pair
			}
			if err := b.enter(kinds, at); err != nil {
				return err
			}
			if err := b.pair(key, pods); err != nil {
				return err
			}
		}
	}
	return nil
}

// warmUp makes both schedulers run once without counting: the database, the API server's caches and
// the simulator have grown to their size afterwards.
func (b *bench) warmUp(nodes int) error {
	defer b.took("warm-up", time.Now())
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
	defer b.took(fmt.Sprintf("pairs of %d pods on %d nodes", pods, key.Nodes), time.Now())
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
