package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
)

// Options configure a demo.
type Options struct {
	Seed uint64
	// Nodes is the number of nodes; see the function Nodes.
	Nodes int
	// Own are the user's own nodes. If there are any, they replace Nodes.
	Own []hollow.Spec
	// Self is the command line of the program that understands the verbs, without a verb.
	Self []string
	// Progress receives the state of the run from time to time; it must not be nil.
	Progress io.Writer
	// Keep means that the directories of the clusters with all logs are not removed.
	Keep bool
	// Log receives the control plane's log; nil discards it.
	Log io.Writer
	// Server is the program of a kube-apiserver; "" means the API server in this program.
	Server string
	// Schedulers is the number of a playground's schedulers, of which one leads; 0 means 1.
	Schedulers int
	// Metrics makes the schedulers and agents of a playground serve metrics for Prometheus.
	Metrics bool
	// Play passes Agent to the ClusterOptions, and Change and Patience to the Runner. Up and
	// StartPlayground ignore these fields.
	Agent    func(*agent.Options)
	Change   func(*corev1.Pod)
	Patience time.Duration
}

// Compare runs the same workload on two new clusters, one for each scheduler.
func Compare(ctx context.Context, opts Options, stock, berth Scheduler) (*Comparison, error) {
	if err := CheckWorkload(opts.Nodes); err != nil {
		return nil, err
	}
	nodes, err := opts.specs()
	if err != nil {
		return nil, err
	}
	// This checks both clusters before the first one starts, because the second one may need more
	// inotify instances.
	if err := checkWatches(nodes, stock.Predicts() || berth.Predicts()); err != nil {
		return nil, err
	}
	fmt.Fprintf(opts.Progress, "The same pods on the same %d nodes, under %s and then under %s:\n", opts.Nodes, stock.Title(), berth.Title())
	if err := describe(opts.Progress, opts.Nodes); err != nil {
		return nil, err
	}
	c := &Comparison{}
	for _, half := range []struct {
		scheduler Scheduler
		into      **Report
	}{{stock, &c.Stock}, {berth, &c.Berth}} {
		report, err := Play(ctx, opts, half.scheduler)
		if err != nil {
			return nil, fmt.Errorf("under %s: %w", half.scheduler.Title(), err)
		}
		*half.into = report
	}
	c.finish()
	return c, nil
}

// startLimit is the maximum time for the start of a cluster with its scheduler.
const startLimit = 3 * time.Minute

// Play starts a cluster with the scheduler, runs the workload and stops the cluster.
func Play(ctx context.Context, opts Options, s Scheduler) (_ *Report, err error) {
	m := newMeter(opts.Progress, s.Title())
	m.line("starting an API server and %d nodes", opts.Nodes)
	begun := time.Now()
	c, err := up(ctx, opts, s, ClusterOptions{Agent: opts.Agent})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if opts.Keep {
		m.line("logs and checkpoints stay in %s", c.dir)
	}
	w := Generate(opts.Seed, opts.Nodes)
	m.line("ready after %.0f s; %d pods follow within %.0f s, seed %d", time.Since(begun).Seconds(), len(w.Pods), w.Length().Seconds(), w.Seed)
	r := &Runner{Cluster: c, Workload: w, Predicts: s.Predicts(), Patience: opts.Patience, Change: opts.Change, Progress: m.show}
	report, err := r.Run(ctx)
	if err != nil {
		return nil, err
	}
	m.last(time.Since(r.begun), report)
	for _, note := range report.Notes {
		m.line("%s", note)
	}
	return report, nil
}

func (o *Options) verb(name string) []string { return append(slices.Clone(o.Self), name) }

func (o *Options) specs() ([]hollow.Spec, error) {
	if len(o.Own) > 0 {
		return o.Own, nil
	}
	return Nodes(o.Nodes)
}

// Up starts a cluster with a running scheduler.
func Up(ctx context.Context, opts Options, s Scheduler) (*Cluster, error) {
	return up(ctx, opts, s, ClusterOptions{})
}

// The function up starts a cluster as Up does. It sets the fields of the argument cluster that
// follow from opts and s, and keeps what the caller has set in the other fields.
func up(ctx context.Context, opts Options, s Scheduler, cluster ClusterOptions) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	nodes, err := opts.specs()
	if err != nil {
		return nil, err
	}
	manifests, err := s.Manifests()
	if err != nil {
		return nil, err
	}
	cluster.Nodes, cluster.NodeCommand, cluster.Manifests = nodes, opts.verb(VerbNode), manifests
	cluster.ControlPlane, cluster.Keep = controlplane.Options{Server: opts.Server, Log: opts.Log}, opts.Keep
	if err := checkWatches(nodes, s.Predicts()); err != nil {
		return nil, err
	}
	c, err := StartCluster(ctx, cluster)
	if err != nil {
		return nil, err
	}
	stop, err := s.Start(ctx, c, opts.Self)
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	c.OnStop(stop)
	return c, nil
}
