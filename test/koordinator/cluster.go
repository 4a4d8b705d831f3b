package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/test/podgroup"
)

// startLimit bounds the start of the cluster on a busy machine.
const startLimit = 4 * time.Minute

const urgent = "urgent"

const manifests = `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: ` + urgent + `}
value: 1000
`

// machines are those of the nodes. One CPU of each is reserved.
var machines = []string{
	"package:2 numa:1 core:4 pu:2 mem:8Gi dist:10,21",
	"package:2 numa:2 core:4 pu:1 mem:4Gi",
	"package:1 numa:2 core:4 pu:2 mem:8Gi",
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
reservedSystemCPUs: "0"
`

func specs() (all []hollow.Spec) {
	for i, m := range machines {
		all = append(all, hollow.Spec{Name: fmt.Sprint("k", i), Machine: m, KubeletConfig: kubeletConfig, NRI: true, StopTime: 200 * time.Millisecond})
	}
	return all
}

// cluster is a control plane with nodes that obey, their agents, and one scheduler.
type cluster struct {
	*demo.Cluster
	stopAgents func() error
	scheduler  *child.Process
	port       int
}

// startCluster starts everything. What has been started is in the result also when it fails.
func startCluster(ctx context.Context, o *options) (*cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := &cluster{}
	var err error
	c.Cluster, err = demo.StartCluster(ctx, demo.ClusterOptions{Dir: o.dir, Nodes: specs(), NodeCommand: []string{os.Args[0], demo.VerbNode},
		Manifests: append(deploy.Manifests(), []byte(manifests), podgroup.Reservations()), Keep: o.keep})
	if err != nil {
		return c, err
	}
	if c.stopAgents, err = c.StartAgents(ctx); err != nil {
		return c, err
	}
	if c.port, err = child.FreePort(); err != nil {
		return c, err
	}
	return c, errors.Join(c.configure(), c.startScheduler())
}

func (c *cluster) configFile() string { return filepath.Join(c.Dir(), "scheduler.yaml") }

// configure writes what the scheduler starts with.
func (c *cluster) configure() error {
	access := filepath.Join(c.Dir(), "scheduler.kubeconfig")
	kubeconfig, err := c.ControlPlane.Kubeconfig("system:kube-scheduler", nil)
	if err != nil {
		return err
	}
	text, err := scheduler.Configuration(scheduler.ConfigOptions{Kubeconfig: access})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(access, kubeconfig, 0o600), os.WriteFile(c.configFile(), text, 0o600))
}

func (c *cluster) startScheduler() (err error) {
	c.scheduler, err = child.Start(child.Spec{Name: "scheduler", Log: filepath.Join(c.Dir(), "scheduler.log"), Argv: []string{
		os.Args[0], demo.VerbBerthScheduler, "--config=" + c.configFile(), "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", c.port),
		"--cert-dir=" + c.Dir(), "-v=2",
	}})
	return err
}

// restartScheduler kills the scheduler and starts another.
func (c *cluster) restartScheduler() error {
	c.scheduler.Kill()
	return c.startScheduler()
}

// restartAgent stops the agent of a node and starts another.
func (c *cluster) restartAgent(ctx context.Context, node string) error {
	return errors.Join(c.StopAgent(node), c.StartAgent(ctx, node))
}

func (c *cluster) stop() error {
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
