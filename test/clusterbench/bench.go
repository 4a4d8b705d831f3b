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
)

// verbCluster compares schedulers; it continues where an earlier call stopped.
const verbCluster = "cluster"

// bench is one call of the program.
type bench struct {
	testbed
	cancel context.CancelFunc
	verb   string
	result result
}

func newBench(ctx context.Context, verb string, o options, stderr io.Writer) (_ *bench, err error) {
	b := &bench{verb: verb, testbed: testbed{journal: journal{out: stderr}, options: o}}
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
	if o.apart {
		if err = b.places.apart(); err != nil {
			return nil, err
		}
	}
	if b.dir, err = os.MkdirTemp("", "clusterbench-"); err != nil {
		return nil, err
	}
	return b, b.start()
}

// close ends everything.
func (b *bench) close() {
	b.cancel()
	b.stop()
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

// resume loads the results of earlier calls with the same flags and programs. It drops a pair with
// only one run.
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
	before, err := readResult(b.file())
	if errors.Is(err, fs.ErrNotExist) {
		b.result.Calls = 1
		return nil
	}
	if err != nil {
		return fmt.Errorf("earlier results: %s: %w", b.file(), err)
	}
	before.Runs = slices.DeleteFunc(before.Runs, func(r runResult) bool { return !before.has(r.runKey, r.Pods) })
	b.result, b.seconds = before, before.Seconds
	b.result.Calls++
	b.say("going on with %s, which has %d pairs; remove it to begin again", b.file(), len(before.Runs)/2)
	return nil
}

func readResult(file string) (r result, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// file is the result as JSON. A comparison of schedulers has one file for each set of flags and
// programs, so that calls with other flags do not change it.
func (b *bench) file() string {
	if b.result.Programs == "" {
		return filepath.Join(b.options.out, b.verb+".json")
	}
	key := sha256.Sum256([]byte(b.result.Programs + b.result.Options))
	return filepath.Join(b.options.out, fmt.Sprintf("%s-%x.json", b.verb, key[:4]))
}

// keep writes the results so far.
func (b *bench) keep() error {
	b.result.LoadAverage[1], b.result.Seconds = loadAverage(), b.seconds
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
