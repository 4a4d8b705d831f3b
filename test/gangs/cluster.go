package main

import (
	"context"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/test/line"
	"github.com/berth-dev/berth/test/podgroup"
	"github.com/berth-dev/berth/test/trial"
)

const namespace = "gangs"

// cluster is a cluster with agents, and one scheduler that can be killed between two Bindings.
type cluster struct {
	*trial.Cluster
	standby standby

	mu        sync.Mutex
	scheduler *trial.Part
	// before is called before a Binding is written. kill means that the scheduler is killed;
	// arrives means that this Binding is written anyway.
	before func(pod string) (kill, arrives bool)
}

// startCluster starts everything. If it fails, the result has the parts that were started.
func startCluster(ctx context.Context, o *options) (c *cluster, err error) {
	c = &cluster{}
	c.Cluster, err = trial.Start(ctx, demo.ClusterOptions{Dir: o.dir, Nodes: specs(), Manifests: trial.Manifests(namespace, podgroup.Manifests()...), Keep: o.keep})
	if err != nil {
		return c, err
	}
	if err = c.StartAgents(ctx); err != nil {
		return c, err
	}
	way, err := c.Line(c.forward)
	if err != nil {
		return c, err
	}
	c.mu.Lock()
	c.scheduler, err = c.StartScheduler(schedulerOf("scheduler"), way)
	c.mu.Unlock()
	if err != nil {
		return c, err
	}
	return c, c.standby.start(ctx, c.Cluster)
}

// schedulerOf returns a scheduler with this trial's timeout for gangs.
func schedulerOf(name string) trial.Scheduler {
	return trial.Scheduler{Name: name, Args: &scheduler.Args{GangTimeout: metav1.Duration{Duration: gangTimeout}}}
}

// forward passes on the requests of the scheduler, and kills the scheduler before some of them.
func (c *cluster) forward(way *line.Line, out http.ResponseWriter, r *http.Request) {
	pod := line.BindingOf(r)
	if pod == "" {
		way.Forward(out, r)
		return
	}
	kill, arrives := c.killBefore(pod)
	if !kill {
		way.Forward(out, r)
		return
	}
	if later := way.CopyOf(r); arrives && later != nil {
		way.Send(later)
	}
	c.scheduler.Kill()
	line.Drop()
}

func (c *cluster) killBefore(pod string) (kill, arrives bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before == nil || c.scheduler.Since().IsZero() {
		return false, false
	}
	return c.before(pod)
}
