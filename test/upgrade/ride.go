package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/test/trial"
)

// ride is the result of one direction.
type ride struct {
	From   string       `json:"from"`
	To     string       `json:"to"`
	Stages []stage      `json:"stages"`
	Report *demo.Report `json:"report"`
	// Wrong lists the failed checks.
	Wrong []string `json:"wrong"`
}

// stage is the time during which one pair of releases works together.
type stage struct {
	Scheduler string `json:"scheduler"`
	Agents    string `json:"agents"`
	// Running is how many pods began to run in the stage.
	Running int `json:"running"`
}

// stageTime is the length of each of the first two stages. Pods are created for 76 s
// (internal/demo).
const stageTime = 24 * time.Second

// leastRunning is the number of pods that must begin to run in each stage. With fewer, the result
// proves nothing.
const leastRunning = 10

const namespaceManifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + "}\n"

// travel replaces one release with another on a new cluster, under load.
func travel(ctx context.Context, o *options, from, to *release, out io.Writer) (r *ride, err error) {
	nodes, err := demo.Nodes(o.nodes)
	if err != nil {
		return nil, err
	}
	start := func(ctx context.Context) (p *parts, err error) {
		p = &parts{agents: map[string]*child.Process{}}
		p.Cluster, err = trial.Start(ctx, demo.ClusterOptions{Nodes: nodes, Manifests: [][]byte{[]byte(namespaceManifest), from.manifests}, Keep: o.keep})
		if err != nil {
			return p, err
		}
		p.OnStop(p.stopParts)
		if err := p.replaceAgents(ctx, from); err != nil {
			return p, err
		}
		return p, p.replaceScheduler(ctx, from)
	}
	err = trial.With(ctx, out, start, func(p *parts) error {
		if o.keep {
			fmt.Fprintln(out, "  logs stay in", p.Dir())
		}
		r, err = (&journey{parts: p, from: from, to: to, out: out, o: o}).run(ctx)
		return err
	})
	return r, err
}

// journey is the state of a ride that is in progress.
type journey struct {
	parts    *parts
	from, to *release
	out      io.Writer
	o        *options

	mu      sync.Mutex
	running int // pods that have ever run
	stages  []stage
}

func (j *journey) run(ctx context.Context) (*ride, error) {
	before, err := j.reports(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	moved := make(chan error, 1)
	go func() {
		err := j.move(ctx)
		if err != nil {
			cancel(err)
		}
		moved <- err
	}()
	runner := &demo.Runner{Cluster: j.parts.Cluster.Cluster, Workload: demo.Generate(j.o.seed, j.o.nodes), Predicts: true, Progress: j.progress}
	report, err := runner.Run(ctx)
	if err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	if err := <-moved; err != nil {
		return nil, err
	}
	j.close(j.to, j.to)
	r := &ride{From: j.from.version, To: j.to.version, Stages: j.stages, Report: report, Wrong: []string{}}
	j.tell(report.Notes)
	after, err := j.reports(ctx)
	if err != nil {
		return nil, err
	}
	if report.Contended, err = j.parts.contended(); err != nil {
		return nil, err
	}
	r.judge(before, after, j.parts.ended())
	return r, nil
}

// tell prints the notes of the workload, with the scheduler that bound each pod.
func (j *journey) tell(notes []string) {
	for _, note := range notes {
		pod, _, _ := strings.Cut(note, " ")
		if by := j.parts.boundBy(pod); by != "" {
			note += ", bound by scheduler " + by
		}
		fmt.Fprintln(j.out, "  "+note)
	}
}

// progress records how many pods have started to run.
func (j *journey) progress(_ time.Duration, r *demo.Report, _ int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running = r.Running
}

// move replaces scheduler and agents while pods are created.
func (j *journey) move(ctx context.Context) error {
	if err := pause(ctx, stageTime); err != nil {
		return err
	}
	j.close(j.from, j.from)
	if err := j.parts.ControlPlane.Apply(ctx, j.to.manifests); err != nil {
		return err
	}
	if err := j.parts.replaceScheduler(ctx, j.to); err != nil {
		return err
	}
	if err := pause(ctx, stageTime); err != nil {
		return err
	}
	j.close(j.to, j.from)
	return j.parts.replaceAgents(ctx, j.to)
}

// pause waits while a pair of releases works.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close ends a stage.
func (j *journey) close(scheduler, agents *release) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := stage{scheduler.version, agents.version, j.running}
	for _, before := range j.stages {
		s.Running -= before.Running
	}
	j.stages = append(j.stages, s)
	fmt.Fprintf(j.out, "  scheduler %s, agents %s: %d pods ran\n", s.Scheduler, s.Agents, s.Running)
}

// report has the fields of a NodeTopology that the test compares.
type report struct {
	uid   types.UID
	ready bool
}

// reports reads the NodeTopologies.
func (j *journey) reports(ctx context.Context) (map[string]report, error) {
	list, err := j.parts.Objects.Resource(v1alpha1.NodeTopologies).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]report{}
	for i := range list.Items {
		nt := &v1alpha1.NodeTopology{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, nt); err != nil {
			return nil, err
		}
		out[nt.Name] = report{nt.UID, meta.IsStatusConditionTrue(nt.Status.Conditions, v1alpha1.ConditionReady)}
	}
	return out, nil
}

// judge adds the failed checks to Wrong.
func (r *ride) judge(before, after map[string]report, ended error) {
	add := func(format string, args ...any) { r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...)) }
	if n := r.Report.Refused(); n > 0 {
		add("%d pods were refused by their kubelets", n)
	}
	if n, excused := r.Report.Mispredicted, r.Report.Contended; n > excused {
		add("%d pods got something other than was promised, and the schedulers say that it was nobody's mistake for %d of them", n, excused)
	}
	for _, s := range r.Stages {
		if s.Running < leastRunning {
			add("scheduler %s with agents %s: %d pods ran: want at least %d", s.Scheduler, s.Agents, s.Running, leastRunning)
		}
	}
	if len(before) == 0 {
		add("there was no NodeTopology in the beginning")
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		switch {
		case after[name].uid != before[name].uid:
			add("NodeTopology %s is another object than before", name)
		case !after[name].ready:
			add("NodeTopology %s is not Ready", name)
		}
	}
	if ended != nil {
		add("%v", ended)
	}
}
