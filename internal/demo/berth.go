package demo

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/jobs"
	"github.com/berth-dev/berth/internal/scheduler"
)

// Berth is a Scheduler: berth-scheduler, with an agent on each node, installed from the manifests
// that users apply. The zero value has the defaults.
type Berth struct {
	// Names are the schedulerNames that Berth serves, each with a profile. If there are none, Berth
	// serves only default-scheduler.
	Names []string
	// Args are the plugin's arguments; nil means the defaults.
	Args *scheduler.Args
	// Config is the user's own KubeSchedulerConfiguration. Config replaces Names and Args. Its
	// kubeconfig and its leader election are overridden.
	Config []byte
	// Jobs makes berth-controller run Jobs of batch.volcano.sh.
	Jobs bool
	// Volcano is the controller that runs these Jobs instead of berth-controller, or nil.
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
		theirs, err := b.Volcano.Manifests()
		return append(all, theirs...), err
	}
	if b.Jobs {
		all = append(all, deploy.JobManifests()...)
	}
	return all, nil
}

// Start implements Scheduler.
func (b Berth) Start(ctx context.Context, c *Cluster, self []string) (func() error, error) {
	argv, err := b.command(c, self)
	if err != nil {
		return nil, err
	}
	if err := c.startSchedulers(argv); err != nil { // it does not wait, so the agents start meanwhile
		return nil, err
	}
	stopBoth := func() error { return errors.Join(c.stopSchedulers(), c.stopAgents()) }
	stopJobs := func() error { return nil }
	if err = c.StartAgents(ctx); err == nil {
		err = c.waitLeader(ctx)
	}
	switch {
	case err != nil:
	case b.Volcano != nil:
		stopJobs, err = c.StartVolcano(ctx, b.Volcano)
	case b.Jobs:
		stopJobs, err = c.startJobs(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, stopBoth())
	}
	return func() error { return errors.Join(stopJobs(), stopBoth()) }, nil
}

// startJobs runs berth-controller with a service account token, like the controller's pod. The
// controller runs until stop is called, even if ctx ends earlier.
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

// contended returns the number of contended promises in the scheduler's log.
func (c *Cluster) contended() (int, error) {
	log, err := os.ReadFile(filepath.Join(c.dir, schedulerLog))
	return bytes.Count(log, []byte(` outcome="contended"`)), err
}
