// Command shadow plays the demo's workload under kube-scheduler while Berth watches in shadow mode,
// with rights to read alone. Its last line is JSON: how many pods were played and judged, how many
// the kubelets rejected and Berth had foretold, and what must be 0. It ends with 1 if that is not
// 0, if too few were rejected, or if too many were not judged.
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
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler/witness"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/test/trial"
)

// errNotZero is the answer no; the output has said why.
var errNotZero = errors.New("shadow mode did not foretell what the kubelets did")

type options struct {
	seed       uint64
	nodes      int
	keep       bool
	rejections int
}

func main() {
	o := &options{}
	(&trial.Program{
		Name: "shadow", Keep: &o.keep, Roles: []trial.Role{role},
		Flags: func(f *flag.FlagSet) {
			f.Uint64Var(&o.seed, "seed", 1, "seed of the workload, as of the demo")
			f.IntVar(&o.nodes, "nodes", demo.AllNodes, "how many hollow nodes")
			f.IntVar(&o.rejections, "rejections", 50, "how many pods have to be rejected, and foretold, at least")
		},
		Check: func() error { return demo.CheckWorkload(o.nodes) },
		Play:  func(ctx context.Context, out io.Writer) error { return play(ctx, o, out) },
	}).Main()
}

// role is shadow mode as a process of its own.
func role(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 || args[0] != witness.Verb {
		return 0, false
	}
	ctx, cancel := child.WithParent(context.Background(), stdin)
	defer cancel()
	cmd := witness.NewCommand()
	cmd.SetArgs(args[1:])
	cmd.SetOut(stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, err)
		return 1, true
	}
	return 0, true
}

// watched is kube-scheduler beside agents and shadow mode.
type watched struct {
	demo.Stock
	found *found
}

// found is what shadow mode says in the end, and what it took.
type found struct {
	view    shadow.View
	seconds float64 // of CPU
}

// Manifests implements demo.Scheduler: what an installation in shadow mode has.
func (watched) Manifests() ([][]byte, error) { return deploy.ShadowManifests(), nil }

// Start implements demo.Scheduler.
func (w watched) Start(ctx context.Context, c *demo.Cluster, self []string) (stop func() error, err error) {
	stopScheduler, err := w.Stock.Start(ctx, c, self)
	if err != nil {
		return nil, err
	}
	if err := c.StartAgents(ctx); err != nil {
		return nil, errors.Join(err, stopScheduler())
	}
	access, err := c.ControlPlane.TokenConfig(ctx, "berth-system", "berth-shadow", "")
	if err != nil {
		return nil, errors.Join(err, stopScheduler())
	}
	kubeconfig := filepath.Join(c.Dir(), "shadow.kubeconfig")
	port, err := child.FreePort()
	if err == nil {
		err = controlplane.WriteAccess(kubeconfig, access)
	}
	if err != nil {
		return nil, errors.Join(err, stopScheduler())
	}
	p, err := child.Start(child.Spec{Name: "shadow", Log: filepath.Join(c.Dir(), "shadow.log"),
		Argv: append(self[:len(self):len(self)], witness.Verb, "--kubeconfig="+kubeconfig, fmt.Sprint("--listen=127.0.0.1:", port), "-v=2")})
	if err != nil {
		return nil, errors.Join(err, stopScheduler())
	}
	at := client{fmt.Sprint("http://127.0.0.1:", port)}
	if err := at.ready(ctx, p); err != nil {
		return nil, errors.Join(err, p.Stop(), stopScheduler())
	}
	return func() error {
		var err error
		w.found.view, err = at.settled()
		w.found.seconds = secondsOf(p.PID())
		return errors.Join(err, p.Stop(), stopScheduler())
	}, nil
}

// line is the last line.
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
	report, err := demo.Play(ctx, demo.Options{Seed: o.seed, Nodes: o.nodes, Self: []string{self}, Progress: out, Keep: o.keep}, watched{found: &f})
	if err != nil {
		return err
	}
	v := &f.view
	t := &v.Total
	fmt.Fprintln(out, v.Summary)
	for i := range v.Pods {
		if r := &v.Pods[i]; r.Result.Mistaken() || r.Result == shadow.NotJudged {
			fmt.Fprintf(out, "%s/%s on %s: %s %s: expected %+v, got %+v\n", r.Namespace, r.Name, r.Node, r.Result, r.Reason, r.Expected, r.Got)
		}
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
		Elsewhere: t.Elsewhere, Split: t.Split, Stranded: t.Stranded, Open: v.Open, CPUSeconds: f.seconds,
	}))
}

// secondsOf is how long a process has been on a CPU; 0 where that is not known.
func secondsOf(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	const ticks, utime, stime = 100, 11, 12 // proc(5)
	if len(fields) <= stime {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[utime], 64)
	system, _ := strconv.ParseFloat(fields[stime], 64)
	return (user + system) / ticks
}

// patience is how long the last answers may take: an agent that has nothing new says so every 10 s.
const patience = 45 * time.Second
