package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
)

// ClusterOptions configure a Cluster.
type ClusterOptions struct {
	// Dir is the parent of the temporary directory; "" means os.TempDir. It must be short, because
	// the length of socket paths is limited.
	Dir   string
	Nodes []hollow.Spec
	// NodeCommand is the command line that starts a node; the node's directory is appended. The
	// program must call hollow.Main with this directory.
	NodeCommand []string
	// Manifests are applied before the nodes start: custom resources, roles, policies.
	Manifests [][]byte
	// ControlPlane configures the control plane. Its Dir is ignored: the control plane's directory
	// is inside the cluster's.
	ControlPlane controlplane.Options
	// On is a running control plane, which other clusters may share; Stop leaves it running. nil
	// starts a new control plane.
	On *controlplane.ControlPlane
	// Way returns the configuration with which a part of the cluster ("node NAME" or "agent NAME")
	// connects to the API server, given the configuration for a direct connection. If it is nil,
	// all parts connect directly.
	Way func(part string, access *rest.Config) (*rest.Config, error)
	// Agent changes the options of agents in this process; nil changes nothing.
	Agent func(*agent.Options)
	// AgentCommand is the command line that starts an agent as a process of its own; the arguments
	// that VerbAgent describes are appended. nil runs the agents in this process.
	AgentCommand []string
	// Schedulers is the number of scheduler processes, of which one leads; 0 means 1.
	Schedulers int
	// Lease is the time after which another scheduler replaces a silent leader; 0 means a minute.
	Lease time.Duration
	// Metrics makes schedulers, and agents in their own processes, serve metrics for Prometheus.
	Metrics bool
	// Keep means that Stop leaves the directory with the logs of nodes, agents and schedulers.
	Keep bool
}

// Cluster is a running control plane with its nodes.
type Cluster struct {
	ControlPlane *controlplane.ControlPlane
	// Client is a client with an administrator's rights.
	Client kubernetes.Interface
	Nodes  []*hollow.Process

	dir        string
	opts       ClusterOptions
	schedulers []*part // none before they are started
	// agents are the running agents, by node.
	agents map[string]runningAgent
	stops  []func() error
}

// Ended returns an error if a process of the cluster has ended by itself.
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

// await polls until done returns true, and returns nil. It returns an error if a process of the
// cluster ends by itself, or if ctx ends. In the second case, the error begins with the argument
// what.
func (c *Cluster) await(ctx context.Context, what string, done func(context.Context) bool) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return done(ctx), c.Ended()
	})
	if ended := c.Ended(); ended != nil {
		return ended
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// StartCluster starts the control plane and the nodes, and returns when every node is ready. If
// StartCluster fails, it ends all processes, and removes all files unless Keep is set. ctx applies
// to the start only.
func StartCluster(ctx context.Context, opts ClusterOptions) (_ *Cluster, err error) {
	if opts.Way == nil {
		opts.Way = func(_ string, access *rest.Config) (*rest.Config, error) { return access, nil }
	}
	c := &Cluster{opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.dir, err = os.MkdirTemp(opts.Dir, "berth-"); err != nil {
		return nil, err
	}
	if c.ControlPlane = opts.On; c.ControlPlane == nil {
		opts.ControlPlane.Dir = c.dir
		if c.ControlPlane, err = controlplane.Start(ctx, opts.ControlPlane); err != nil {
			return nil, err
		}
	}
	if c.Client, err = kubernetes.NewForConfig(c.ControlPlane.RESTConfig()); err != nil {
		return nil, err
	}
	if len(opts.Nodes) > 0 {
		opts.Manifests = append(slices.Clone(opts.Manifests), []byte(kubeletsReadPods))
	}
	if err = c.ControlPlane.Apply(ctx, opts.Manifests...); err != nil {
		return nil, err
	}
	for i := range opts.Nodes {
		p, err := c.launch(&opts.Nodes[i])
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, p)
	}
	return c, c.waitNodes(ctx)
}

// kubeletsReadPods lets kubelets read pods and their claims. Without this role, the Node authorizer
// lets a kubelet read a pod only after the authorizer has seen the Binding. If the kubelet sees the
// Binding earlier, its first write of the pod's status fails; on a busy machine, this happens for
// one pod in seven. The kubelet tries again when another pod's status changes, or after 10 s
// (pkg/kubelet/status, syncPeriod). So pods would seem to run seconds later than they do, under any
// scheduler.
const kubeletsReadPods = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: berth-demo:kubelets-read-pods}
rules:
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: berth-demo:kubelets-read-pods}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-demo:kubelets-read-pods}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:nodes}
`

// launch starts a node with its own credentials: user system:node:NAME in group system:nodes.
func (c *Cluster) launch(spec *hollow.Spec) (*hollow.Process, error) {
	user := controlplane.Kubelet(spec.Name)
	config, err := c.ControlPlane.UserConfig(user.Name, user.Groups)
	if err == nil {
		config, err = c.opts.Way(nodePart+" "+spec.Name, config)
	}
	if err != nil {
		return nil, err
	}
	kubeconfig, err := controlplane.Access(config)
	if err != nil {
		return nil, err
	}
	return hollow.Launch(hollow.Dir(filepath.Join(c.dir, spec.Name)), spec, kubeconfig, c.opts.NodeCommand)
}

// RestartNode kills the kubelet of the named node with its containers, and starts the kubelet again
// with its files. It does not wait until the node is ready.
func (c *Cluster) RestartNode(name string) error {
	node, err := c.Node(name)
	if err != nil {
		return err
	}
	spec, err := node.Dir.ReadSpec()
	if err != nil {
		return err
	}
	node.Kill()
	p, err := c.launch(spec)
	if err == nil {
		node.Process = p.Process
	}
	return err
}

// Dir returns the temporary directory of the cluster.
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

// OnStop adds a function that Stop calls. The function added last is called first.
func (c *Cluster) OnStop(stop func() error) { c.stops = append(c.stops, stop) }

// Stop ends all parts, in the reverse order of their start: functions of OnStop, schedulers,
// agents, nodes and control plane. It removes all files unless Keep is set.
func (c *Cluster) Stop() error {
	var errs []error
	for _, stop := range slices.Backward(c.stops) {
		errs = append(errs, stop())
	}
	errs = append(errs, c.stopSchedulers(), c.stopAgents())
	var g errgroup.Group
	for _, p := range c.Nodes {
		g.Go(p.Stop)
	}
	errs = append(errs, g.Wait())
	if c.ControlPlane != c.opts.On {
		errs = append(errs, c.ControlPlane.Stop())
	}
	if c.dir != "" && !c.opts.Keep {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}
