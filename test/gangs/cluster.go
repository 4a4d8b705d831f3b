package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/test/line"
	"github.com/berth-dev/berth/test/podgroup"
	"github.com/berth-dev/berth/test/trial"
)

// startLimit bounds the start of the cluster on a busy machine.
const startLimit = 4 * time.Minute

const (
	namespace = "gangs"
	urgent    = "urgent"
)

const manifests = `apiVersion: v1
kind: Namespace
metadata: {name: ` + namespace + `}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: ` + urgent + `}
value: 1000
`

// cluster is a hollow cluster with agents, and one scheduler that can be killed between two
// Bindings.
type cluster struct {
	*demo.Cluster
	groups     dynamic.Interface
	command    []string // of the nodes
	stopAgents func() error
	way        *line.Line // of the scheduler
	standby    standby

	mu        sync.Mutex
	scheduler *child.Process
	started   time.Time // the scheduler
	port      int
	flags     []string // of the scheduler
	// before is asked before a Binding is written: whether the scheduler is killed, and whether
	// this Binding arrives all the same.
	before func(pod string) (kill, arrives bool)
	// dying: the scheduler has been killed, and may not have ended yet.
	dying  bool
	deaths int
}

// startCluster starts everything. What has been started is in the result also when it fails.
func startCluster(ctx context.Context, o *options) (*cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := &cluster{command: []string{os.Args[0], demo.VerbNode}}
	all := append(deploy.Manifests(), podgroup.Manifests()...)
	var err error
	c.Cluster, err = demo.StartCluster(ctx, demo.ClusterOptions{Dir: o.dir, Nodes: specs(), NodeCommand: c.command, Manifests: append(all, []byte(manifests)), Keep: o.keep})
	if err != nil {
		return c, err
	}
	if c.groups, err = dynamic.NewForConfig(c.ControlPlane.RESTConfig()); err != nil {
		return c, err
	}
	if c.stopAgents, err = c.StartAgents(ctx); err != nil {
		return c, err
	}
	config, err := c.ControlPlane.UserConfig("system:kube-scheduler", nil)
	if err != nil {
		return c, err
	}
	if c.way, err = line.New(config, c); err != nil {
		return c, err
	}
	return c, errors.Join(c.configure(), c.startScheduler(), c.standby.start(ctx, c.Cluster))
}

// configure writes what the scheduler starts with.
func (c *cluster) configure() (err error) {
	s := trial.Scheduler{Dir: c.Dir(), Name: "scheduler", Args: &scheduler.Args{GangTimeout: metav1.Duration{Duration: gangTimeout}}}
	if err := c.way.WriteKubeconfig(s.Access()); err != nil {
		return err
	}
	c.port, c.flags, err = s.Flags()
	return err
}

func (c *cluster) startScheduler() error {
	p, err := child.Start(child.Spec{Name: "scheduler", Log: filepath.Join(c.Dir(), "scheduler.log"), Argv: append(
		[]string{os.Args[0], demo.VerbBerthScheduler, "-v=3"}, c.flags...)})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.scheduler, c.started = p, time.Now()
	}
	return err
}

// keepScheduler starts the scheduler again where it was killed. The error says that it has ended
// otherwise.
func (c *cluster) keepScheduler() error {
	c.mu.Lock()
	p, dying := c.scheduler, c.dying
	c.mu.Unlock()
	switch {
	case dying:
		return nil
	case p != nil:
		return p.Ended()
	}
	return c.startScheduler()
}

// runsSince is when the scheduler began to run; zero: it does not.
func (c *cluster) runsSince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scheduler == nil {
		return time.Time{}
	}
	return c.started
}

// ServeHTTP has the requests of the scheduler carried out, and kills it before some.
func (c *cluster) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	pod := line.BindingOf(r)
	if pod == "" {
		c.way.Forward(out, r)
		return
	}
	kill, arrives := c.killBefore(pod)
	if !kill {
		c.way.Forward(out, r)
		return
	}
	if later := c.way.CopyOf(r); arrives && later != nil {
		c.way.Send(later)
	}
	c.kill()
	line.Drop()
}

func (c *cluster) killBefore(pod string) (kill, arrives bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before == nil || c.scheduler == nil || c.dying {
		return false, false
	}
	return c.before(pod)
}

// kill makes the scheduler die at once.
func (c *cluster) kill() {
	c.mu.Lock()
	p := c.scheduler
	c.dying = true
	c.mu.Unlock()
	if p == nil {
		return
	}
	p.Kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scheduler, c.dying = nil, false
	c.deaths++
}

// killed is how often it has died so.
func (c *cluster) killed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deaths
}

// stop ends everything.
func (c *cluster) stop() error {
	var errs []error
	c.kill()
	c.standby.stop()
	if c.stopAgents != nil {
		errs = append(errs, c.stopAgents())
	}
	if c.way != nil {
		c.way.Close()
	}
	if c.Cluster != nil {
		errs = append(errs, c.Stop())
	}
	return errors.Join(errs...)
}
