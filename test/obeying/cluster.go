// Package obeying is what programs share that try nodes with authority berth from a seed: a hollow
// cluster in which scheduler and agents can be killed, and what is seen of its pods and nodes.
package obeying

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/trial"
)

// startLimit bounds the start of the cluster on a busy machine.
const startLimit = 4 * time.Minute

// Urgent is a priority class of 1000.
const Urgent = "urgent"

const manifests = `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: ` + Urgent + `}
value: 1000
`

// Options say what a cluster has.
type Options struct {
	// Dir is where the cluster writes; "" for a temporary directory. Keep leaves it behind.
	Dir  string
	Keep bool
	// Nodes are the hollow nodes, Manifests what is there beside Berth's own objects.
	Nodes     []hollow.Spec
	Manifests [][]byte
}

// Cluster is a control plane with nodes, their agents, and one scheduler.
type Cluster struct {
	*demo.Cluster
	stopAgents func() error
	scheduler  *child.Process
	flags      []string // of the scheduler
}

// Start starts everything. What has been started is in the result also when it fails.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := &Cluster{}
	var err error
	c.Cluster, err = demo.StartCluster(ctx, demo.ClusterOptions{Dir: o.Dir, Nodes: o.Nodes, NodeCommand: []string{os.Args[0], demo.VerbNode},
		Manifests: append(append(deploy.Manifests(), []byte(manifests)), o.Manifests...), Keep: o.Keep})
	if err != nil {
		return c, err
	}
	if c.stopAgents, err = c.StartAgents(ctx); err != nil {
		return c, err
	}
	return c, errors.Join(c.configure(), c.startScheduler())
}

// configure writes what the scheduler starts with.
func (c *Cluster) configure() (err error) {
	s := trial.Scheduler{Dir: c.Dir(), Name: "scheduler"}
	if err := c.ControlPlane.WriteKubeconfig(s.Access(), controlplane.Scheduler); err != nil {
		return err
	}
	_, c.flags, err = s.Flags()
	return err
}

func (c *Cluster) startScheduler() (err error) {
	c.scheduler, err = child.Start(child.Spec{Name: "scheduler", Log: filepath.Join(c.Dir(), "scheduler.log"), Argv: append(
		[]string{os.Args[0], demo.VerbBerthScheduler, "-v=2"}, c.flags...)})
	return err
}

// RestartScheduler kills the scheduler and starts another.
func (c *Cluster) RestartScheduler() error {
	c.scheduler.Kill()
	return c.startScheduler()
}

// RestartAgent stops the agent of a node and starts another.
func (c *Cluster) RestartAgent(ctx context.Context, node string) error {
	return errors.Join(c.StopAgent(node), c.StartAgent(ctx, node))
}

// End ends everything that was started.
func (c *Cluster) End() error {
	var err error
	if c.scheduler != nil {
		c.scheduler.Kill()
	}
	if c.stopAgents != nil {
		err = c.stopAgents()
	}
	if c.Cluster != nil {
		err = errors.Join(err, c.Cluster.Stop())
	}
	return err
}
