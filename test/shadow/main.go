// Command shadow runs the demo's workload with kube-scheduler, or with Volcano's scheduler if its
// program is given. Berth watches in shadow mode and has only rights to read. The last line is
// JSON: the numbers of pods that were created, judged, rejected by kubelets, and predicted to be
// rejected, and the errors. The exit code is 1 if there are errors, too few rejections, or too many
// pods without a verdict.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/usage"
	"github.com/berth-dev/berth/test/volcano"
)

// errNotZero makes the exit code 1. The output has the reason.
var errNotZero = errors.New("shadow mode did not predict what the kubelets did")

type options struct {
	seed       uint64
	nodes      int
	keep       bool
	rejections int
	volcano    volcano.Scheduler
}

func main() {
	o := &options{}
	(&trial.Program{
		Name: "shadow", Keep: &o.keep, Roles: []trial.Role{trial.ShadowRole},
		Flags: func(f *flag.FlagSet) {
			f.Uint64Var(&o.seed, "seed", 1, "seed of the workload, as in the demo")
			f.IntVar(&o.nodes, "nodes", demo.AllNodes, "number of hollow nodes")
			f.IntVar(&o.rejections, "rejections", 50, "minimum number of pods whose rejection was predicted")
			f.StringVar(&o.volcano.Program, "volcano", "", "Volcano's program vc-scheduler, which places the pods; empty: kube-scheduler")
			f.StringVar(&o.volcano.Controller, "volcano-controller", "", "Volcano's program vc-controller-manager, which creates the PodGroups")
			f.StringVar(&o.volcano.Source, "volcano-source", "", "folder with Volcano's source, which contains its definitions and its configuration")
		},
		Check: func() error {
			if o.volcano.Program != "" {
				if err := o.volcano.Check(); err != nil {
					return fmt.Errorf("-volcano: %w", err)
				}
			}
			return demo.CheckWorkload(o.nodes)
		},
		Play: func(ctx context.Context, out io.Writer) error { return play(ctx, o, out) },
	}).Main()
}

// watched is a scheduler in a cluster with agents and shadow mode.
type watched struct {
	demo.Scheduler
	found *found
}

// found has the final result of shadow mode, and its use of CPU and memory.
type found struct {
	view shadow.View
	cpu  time.Duration
	// captures are the states of wrong predictions, by name.
	captures map[string][]byte
}

// ask reads the findings of shadow mode when all pods have their answers.
func (f *found) ask(ctx context.Context, at trial.Shadow) (err error) {
	if f.view, err = at.Settled(ctx); err != nil {
		return err
	}
	f.captures = map[string][]byte{}
	for i := range f.view.Pods {
		if name := f.view.Pods[i].Capture; name != "" {
			if f.captures[name], err = at.Ask(ctx, "captures/"+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep writes the captures to a new directory.
func (f *found) keep(out io.Writer) error {
	if len(f.captures) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "berth-shadow-")
	if err != nil {
		return err
	}
	for name, data := range f.captures {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "captures of wrong predictions, for berth explain --snapshot, are in %s\n", dir)
	return nil
}

// Manifests implements demo.Scheduler. It returns the objects of an installation in shadow mode.
func (w watched) Manifests() ([][]byte, error) {
	theirs, err := w.Scheduler.Manifests()
	return append(deploy.ShadowManifests(), theirs...), err
}

// Start implements demo.Scheduler.
func (w watched) Start(ctx context.Context, c *demo.Cluster, self []string) (func() error, error) {
	if err := c.StartAgents(ctx); err != nil {
		return nil, err
	}
	stop, err := w.Scheduler.Start(ctx, c, self)
	if err != nil {
		return nil, err
	}
	c.OnStop(stop)
	access, err := c.ControlPlane.TokenConfig(ctx, "berth-system", "berth-shadow", "")
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(c.Dir(), "shadow.kubeconfig")
	if err := controlplane.WriteAccess(kubeconfig, access); err != nil {
		return nil, err
	}
	p, at, err := trial.StartShadow(ctx, child.Spec{Log: filepath.Join(c.Dir(), "shadow.log"), Argv: self}, kubeconfig, "-v=2")
	if err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := w.found.ask(ctx, at)
		w.found.cpu = usage.CPU(p)
		return errors.Join(err, p.Stop())
	}, nil
}

// line is the last line of the output.
type line struct {
	Pods        int                   `json:"pods"`
	Bound       int                   `json:"bound"`
	Judged      int                   `json:"judged"`
	Rejected    int                   `json:"rejected"`
	Foretold    int                   `json:"foretold"`
	Missed      int                   `json:"missed"`
	FalseAlarms int                   `json:"falseAlarms"`
	Exact       int                   `json:"exact"`
	ByVerdict   int                   `json:"byVerdict"`
	Either      int                   `json:"either"`
	Wrong       int                   `json:"wrong"`
	NotJudged   map[shadow.Reason]int `json:"notJudged"`
	Elsewhere   int                   `json:"elsewhere"`
	Split       int                   `json:"split"`
	Stranded    int                   `json:"stranded"`
	Open        int                   `json:"open"`
	CPUSeconds  float64               `json:"cpuSeconds"`
}

func play(ctx context.Context, o *options, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var f found
	how, by := demo.Options{Seed: o.seed, Nodes: o.nodes, Self: []string{self}, Progress: out, Keep: o.keep}, demo.Scheduler(demo.Stock{})
	if o.volcano.Program != "" {
		// Volcano waits for reports, which come every 10 s.
		by, how.Agent, how.Change, how.Patience = &o.volcano, volcano.Numatopologies, volcano.NamePod, 40*time.Second
	}
	report, err := demo.Play(ctx, how, watched{by, &f})
	if err != nil {
		return err
	}
	v := &f.view
	t := &v.Total
	fmt.Fprintln(out, v.Summary)
	for i := range v.Pods {
		if r := &v.Pods[i]; r.Result.Mistaken() || r.Result == shadow.NotJudged {
			fmt.Fprintf(out, "%s/%s on %s: %s: expected %+v, got %+v\n", r.Namespace, r.Name, r.Node, r.Outcome(), r.Expected, r.Got)
		}
	}
	if err := f.keep(out); err != nil {
		return err
	}
	var wrong []string
	demand := func(holds bool, format string, args ...any) {
		if !holds {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	unjudged := 0
	for _, n := range t.NotJudged {
		unjudged += n
	}
	mistakes := t.Missed + t.FalseAlarms + t.Wrong
	demand(mistakes == 0, "%d predictions were wrong", mistakes)
	demand(v.Open == 0, "%d pods have no answer", v.Open)
	demand(t.Rejected == report.Refused(), "%d rejections were seen, and the kubelets rejected %d", t.Rejected, report.Refused())
	demand(t.Foretold >= o.rejections, "%d rejections were foretold: want %d", t.Foretold, o.rejections)
	demand(100*unjudged < t.Pods, "%d of %d pods were not judged: want less than one percent", unjudged, t.Pods)
	for _, w := range wrong {
		fmt.Fprintln(out, w)
	}
	if len(wrong) > 0 {
		err = errNotZero
	}
	return errors.Join(err, json.NewEncoder(out).Encode(line{
		Pods: len(demo.Generate(o.seed, o.nodes).Pods), Bound: t.Pods, Judged: t.Judged, Rejected: t.Rejected, Foretold: t.Foretold, Missed: t.Missed,
		FalseAlarms: t.FalseAlarms, Exact: t.Exact, ByVerdict: t.ByVerdict, Either: t.Either, Wrong: t.Wrong, NotJudged: t.NotJudged,
		Elsewhere: t.Elsewhere, Split: t.Split, Stranded: t.Stranded, Open: v.Open, CPUSeconds: f.cpu.Seconds(),
	}))
}

// patience is how long the last verdicts may take. An agent without news renews its report only
// every 10 s.
const patience = 45 * time.Second
