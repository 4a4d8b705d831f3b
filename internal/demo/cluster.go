package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
)

// ClusterOptions says what to start.
type ClusterOptions struct {
	// Dir is where the temporary directory is made; "" means os.TempDir. Keep it short, for the
	// sake of sockets.
	Dir string
	// Nodes are the hollow nodes.
	Nodes []hollow.Spec
	// NodeCommand is a command line that calls hollow.Main with the directory that is appended to
	// it.
	NodeCommand []string
	// Manifests are applied before the nodes start: custom resources, roles, policies.
	Manifests [][]byte
	// Server is the program of a kube-apiserver; "" means the one that is linked in.
	Server string
	// Flags are further flags of the kube-apiserver that is linked in.
	Flags []string
	// AgentCommand is a command line that plays the role VerbAgent with what is appended to it, so
	// that each agent is a process; nil makes agents run in this one.
	AgentCommand []string
	// Schedulers is how many schedulers run; one of them leads; 0 stands for 1.
	Schedulers int
	// Lease is how long a scheduler may be silent before another one leads in its place; 0 stands
	// for a minute.
	Lease time.Duration
	// Metrics has schedulers, and agents that are processes, listen for Prometheus.
	Metrics bool
	// Keep leaves the directory, with the logs of nodes, agents and scheduler, behind.
	Keep bool
	// Log receives the log of the control plane; nil discards it.
	Log io.Writer
}

// Cluster is a running control plane with its nodes.
type Cluster struct {
	ControlPlane *controlplane.ControlPlane
	// Client is an administrator's.
	Client kubernetes.Interface
	Nodes  []*hollow.Process

	dir        string
	opts       ClusterOptions
	schedulers []*part // none before they are started
	// agents are the ones that run, by node.
	agents map[string]runningAgent
}

// Ended returns an error when a process of the cluster has ended by itself.
func (c *Cluster) Ended() error {
	for _, p := range c.schedulers {
		if p.process.Ended() != nil {
			return schedulerEnded(p.process)
		}
	}
	for _, a := range c.agents {
		if a.part == nil {
			continue
		}
		if err := a.part.process.Ended(); err != nil {
			return err
		}
	}
	for _, p := range c.Nodes {
		if err := p.Ended(); err != nil {
			return err
		}
	}
	return nil
}

// await asks again and again until done, for as long as the cluster stands.
func (c *Cluster) await(ctx context.Context, done func(context.Context) bool) error {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return done(ctx), c.Ended()
	})
}

// StartCluster starts the control plane and the nodes and returns when every node is ready. Nothing
// is left behind when it fails. ctx limits the start alone.
func StartCluster(ctx context.Context, opts ClusterOptions) (_ *Cluster, err error) {
	c := &Cluster{opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.dir, err = os.MkdirTemp(opts.Dir, "berth-"); err != nil {
		return nil, err
	}
	c.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Dir: c.dir, Server: opts.Server, Flags: opts.Flags, Log: opts.Log})
	if err != nil {
		return nil, err
	}
	if c.Client, err = kubernetes.NewForConfig(c.ControlPlane.RESTConfig()); err != nil {
		return nil, err
	}
	if err = c.ControlPlane.Apply(ctx, append([][]byte{[]byte(kubeletsReadPods)}, opts.Manifests...)...); err != nil {
		return nil, err
	}
	for i := range opts.Nodes {
		if err = c.AddNode(&opts.Nodes[i], opts.NodeCommand); err != nil {
			return nil, err
		}
	}
	return c, c.waitNodes(ctx)
}

// kubeletsReadPods lets kubelets read pods. The Node authorizer lets a kubelet read a pod once it
// has seen the pod's Binding itself, and the kubelet may have seen that before: its first write of
// the pod's status then fails, for one pod in seven on a busy machine. The kubelet tries again when
// another pod's status changes, or after 10 s at the latest (pkg/kubelet/status, syncPeriod). So a
// pod that ran would be seen to run seconds later, under any scheduler.
const kubeletsReadPods = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: berth-demo:kubelets-read-pods}
rules:
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: berth-demo:kubelets-read-pods}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-demo:kubelets-read-pods}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:nodes}
`

// AddNode starts a node with credentials of its own: user system:node:NAME in group system:nodes.
func (c *Cluster) AddNode(spec *hollow.Spec, command []string) error {
	p, err := c.launch(spec, command)
	if err != nil {
		return err
	}
	c.Nodes = append(c.Nodes, p)
	return nil
}

func (c *Cluster) launch(spec *hollow.Spec, command []string) (*hollow.Process, error) {
	user := controlplane.Kubelet(spec.Name)
	kubeconfig, err := c.ControlPlane.Kubeconfig(user.Name, user.Groups)
	if err != nil {
		return nil, err
	}
	return hollow.Launch(hollow.Dir(filepath.Join(c.dir, spec.Name)), spec, kubeconfig, command)
}

// RestartNode kills the kubelet of the named node, and its containers with it, and starts it again
// on what it has left on disk. It does not wait until the node is ready.
func (c *Cluster) RestartNode(name string, command []string) error {
	i := slices.IndexFunc(c.Nodes, func(p *hollow.Process) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("cluster: no node %q", name)
	}
	spec, err := c.Nodes[i].Dir.ReadSpec()
	if err != nil {
		return err
	}
	c.Nodes[i].Kill()
	p, err := c.launch(spec, command)
	if err == nil {
		c.Nodes[i] = p
	}
	return err
}

// Dir is where the cluster and its users write: a temporary directory.
func (c *Cluster) Dir() string { return c.dir }

func (c *Cluster) waitNodes(ctx context.Context) error {
	var g errgroup.Group
	for _, p := range c.Nodes {
		g.Go(func() error { return p.WaitReady(ctx, c.Client) })
	}
	return g.Wait()
}

// Node returns the node with the name.
func (c *Cluster) Node(name string) (*hollow.Process, error) {
	for _, p := range c.Nodes {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("cluster: no node %q", name)
}

// Stop ends nodes and control plane and removes everything on disk.
func (c *Cluster) Stop() error {
	var g errgroup.Group
	for _, p := range c.Nodes {
		g.Go(p.Stop)
	}
	errs := []error{g.Wait()}
	if c.ControlPlane != nil {
		errs = append(errs, c.ControlPlane.Stop())
	}
	if c.dir != "" && !c.opts.Keep {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// Wait returns nil when ctx ends, or the error of a part of the cluster that ended first.
func (c *Cluster) Wait(ctx context.Context) error {
	clock := time.NewTicker(500 * time.Millisecond)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
			if err := c.Ended(); err != nil {
				return err
			}
		}
	}
}
