package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/jobs"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/placement"
)

// Berth is Berth's scheduler, with an agent on each node, installed from the manifests that users
// apply. The zero value is as they get it by default.
type Berth struct {
	// Names are the profiles, one for each name that pods may ask for; none means
	// default-scheduler.
	Names []string
	// Args are the plugin's arguments; nil means the defaults.
	Args *scheduler.Args
	// Config is a KubeSchedulerConfiguration of the user's own, in place of Names and Args. Its
	// client connection and leader election are overridden.
	Config []byte
	// Jobs has berth-controller run Jobs of batch.volcano.sh.
	Jobs bool
	// Volcano is the controller that runs them in berth-controller's place; nil for none.
	Volcano *VolcanoController
}

// Title implements Scheduler.
func (Berth) Title() string { return "Berth" }

// Predicts implements Scheduler.
func (Berth) Predicts() bool { return true }

// Manifests implements Scheduler.
func (b Berth) Manifests() ([][]byte, error) {
	all := deploy.ServingNames(deploy.Manifests(), b.Names...)
	if b.Volcano != nil {
		theirs, err := b.Volcano.manifests()
		return append(all, theirs...), err
	}
	if b.Jobs {
		all = append(all, deploy.JobManifests()...)
	}
	return all, nil
}

// Start implements Scheduler.
func (b Berth) Start(ctx context.Context, c *Cluster, self []string) (func() error, error) {
	stopAgents, err := c.StartAgents(ctx)
	if err != nil {
		return nil, err
	}
	argv, err := b.command(c, self)
	if err != nil {
		return nil, errors.Join(err, stopAgents())
	}
	stopScheduler, err := c.startScheduler(ctx, argv)
	if err != nil {
		return nil, errors.Join(err, stopAgents())
	}
	stopJobs := func() error { return nil }
	switch {
	case b.Volcano != nil:
		stopJobs, err = c.startVolcano(ctx, b.Volcano)
	case b.Jobs:
		stopJobs, err = c.startJobs(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, stopScheduler(), stopAgents())
	}
	return func() error { return errors.Join(stopJobs(), stopScheduler(), stopAgents()) }, nil
}

// startJobs runs berth-controller, with a token as its pod has, until stop, whatever becomes of
// ctx.
func (c *Cluster) startJobs(ctx context.Context) (stop func() error, err error) {
	client, err := c.ControlPlane.TokenConfig(ctx, agentNamespace, "berth-controller", "")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(c.dir, "controller.log"))
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		done <- jobs.Run(running, client, jobs.Options{
			Schedulers: SchedulerNames, Log: logr.FromSlogHandler(slog.NewTextHandler(log, nil)),
		})
	}()
	return func() error {
		cancel()
		return errors.Join(<-done, log.Close())
	}, nil
}

// command writes credentials and configuration and returns the scheduler's command line.
func (b Berth) command(c *Cluster, self []string) ([]string, error) {
	kubeconfig, err := c.credentials()
	if err != nil {
		return nil, err
	}
	config, err := b.config(kubeconfig)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.dir, "scheduler.yaml")
	return append(slices.Clone(self), VerbBerthScheduler, "--config="+path), os.WriteFile(path, config, 0o600)
}

// contended counts the promises of which the scheduler's log says that another pod came between.
func (c *Cluster) contended() (int, error) {
	log, err := os.ReadFile(filepath.Join(c.dir, schedulerLog))
	return bytes.Count(log, []byte(` outcome="contended"`)), err
}

// The agents' service account, deploy/rbac.
const agentNamespace, agentAccount = "berth-system", "berth-agent"

// StartAgents runs an agent for each node, with a token as a pod of the DaemonSet has, and returns
// when all of them report.
func (c *Cluster) StartAgents(ctx context.Context) (stop func() error, err error) {
	stop = func() error {
		var errs []error
		for _, p := range c.Nodes {
			errs = append(errs, c.StopAgent(p.Name))
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	for _, p := range c.Nodes {
		if err := c.StartAgent(ctx, p.Name); err != nil {
			return nil, err
		}
	}
	return stop, c.waitReports(ctx)
}

// runningAgent is the agent of a node.
type runningAgent struct {
	cancel context.CancelFunc
	done   chan error
}

// StartAgent runs the agent of the named node until StopAgent, whatever becomes of ctx.
func (c *Cluster) StartAgent(ctx context.Context, node string) error {
	p, err := c.Node(node)
	if err != nil {
		return err
	}
	opts, closeLog, err := c.agentOptions(ctx, p)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := runningAgent{cancel, make(chan error, 1)}
	go func() {
		defer closeLog()
		a.done <- agent.Run(running, opts)
	}()
	if c.agents == nil {
		c.agents = map[string]runningAgent{}
	}
	c.agents[node] = a
	return nil
}

// StopAgent ends the agent of the named node, if it runs, and waits for it.
func (c *Cluster) StopAgent(node string) error {
	a, ok := c.agents[node]
	if !ok {
		return nil
	}
	delete(c.agents, node)
	a.cancel()
	return <-a.done
}

func (c *Cluster) agentOptions(ctx context.Context, p *hollow.Process) (opts agent.Options, closeLog func(), err error) {
	spec, err := p.Dir.ReadSpec()
	if err != nil {
		return opts, nil, err
	}
	client, err := c.ControlPlane.TokenConfig(ctx, agentNamespace, agentAccount, p.Name)
	if err != nil {
		return opts, nil, err
	}
	log, err := os.Create(filepath.Join(c.dir, p.Name+".agent.log"))
	if err != nil {
		return opts, nil, err
	}
	opts = agent.Options{
		Node: p.Name, Client: client, Root: p.Dir.Root(), Machine: spec.Machine, Preferences: preferences(spec),
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	if spec.NRI {
		opts.Authority = v1alpha1.AuthorityBerth
		opts.Enforce = agent.EnforceOptions{NRISocket: p.Dir.NRI(), Cgroups: p.Dir.Cgroups()}
		opts.SpecDirs = []string{p.Dir.CDI()}
	}
	if spec.Devices != "" {
		if opts.Devices, err = offer.Read("devices of "+p.Name, []byte(spec.Devices)); err != nil {
			return opts, nil, errors.Join(err, log.Close())
		}
	}
	return opts, func() { log.Close() }, nil
}

// preferences are what the agent is told of how the node's plugins choose.
func preferences(spec *hollow.Spec) map[string]placement.Preference {
	known := map[string]placement.Preference{}
	for i := range spec.Plugins {
		known[spec.Plugins[i].Resource] = placement.NoPreference
		if spec.Plugins[i].Prefer {
			known[spec.Plugins[i].Resource] = placement.SortedPreference
		}
	}
	return known
}

// waitReports waits until every node can be relied on, as `berth nodes` judges it.
func (c *Cluster) waitReports(ctx context.Context) error {
	cluster, err := survey.Connect(survey.Options{
		Config: c.ControlPlane.RESTConfig(), Heartbeats: v1alpha1.HeartbeatNamespace, StaleAfter: time.Minute, Where: c.ControlPlane.Addr(),
	})
	if err != nil {
		return err
	}
	var missing string
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		found, err := cluster.Survey(ctx, "")
		if err != nil {
			missing = err.Error()
			return false, nil
		}
		for _, n := range found.Nodes() {
			if n.Trouble != nil {
				missing = n.Name + ": " + n.Trouble.Message
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("nodes: %w: %s", err, missing)
	}
	return nil
}
