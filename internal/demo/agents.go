package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/placement"
)

// The namespace and the name of the agents' ServiceAccount, as in deploy/rbac.
const agentNamespace, agentAccount = "berth-system", "berth-agent"

// StartAgents runs an agent for each node, and returns when every agent has reported. Each agent
// has a service account token, like the DaemonSet's pods.
func (c *Cluster) StartAgents(ctx context.Context) error {
	for _, p := range c.Nodes {
		if err := c.StartAgent(ctx, p.Name); err != nil {
			return err
		}
	}
	return c.waitReports(ctx)
}

func (c *Cluster) stopAgents() error {
	var g errgroup.Group
	for _, a := range c.agents {
		g.Go(a.stop)
	}
	clear(c.agents)
	return g.Wait()
}

type runningAgent struct {
	stop func() error
	// part is the agent's process; nil if it runs in this process.
	part *part
}

// StartAgent starts the agent of the named node, without waiting for its report. The agent runs
// until StopAgent, even if ctx ends earlier.
func (c *Cluster) StartAgent(ctx context.Context, node string) error {
	p, err := c.Node(node)
	if err != nil {
		return err
	}
	client, err := c.ControlPlane.TokenConfig(ctx, agentNamespace, agentAccount, node)
	if err == nil {
		client, err = c.opts.Way(agentPart+" "+node, client)
	}
	if err != nil {
		return err
	}
	var a runningAgent
	if c.opts.AgentCommand != nil {
		a, err = c.startAgentProcess(p, client)
	} else {
		a, err = c.startAgentHere(ctx, p, client)
	}
	if err != nil {
		return err
	}
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
	return a.stop()
}

func (c *Cluster) startAgentHere(ctx context.Context, p *hollow.Process, client *rest.Config) (runningAgent, error) {
	log, err := os.Create(c.agentLog(p.Name))
	if err != nil {
		return runningAgent{}, err
	}
	opts, err := agentOptions(p.Dir, client, log)
	if err != nil {
		return runningAgent{}, errors.Join(err, log.Close())
	}
	if c.opts.Agent != nil {
		c.opts.Agent(&opts)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		defer log.Close()
		done <- agent.Run(running, opts)
	}()
	return runningAgent{stop: func() error {
		cancel()
		return <-done
	}}, nil
}

func (c *Cluster) agentLog(node string) string { return filepath.Join(c.dir, node+".agent.log") }

func (c *Cluster) startAgentProcess(p *hollow.Process, client *rest.Config) (a runningAgent, err error) {
	access := filepath.Join(c.dir, p.Name+".agent.kubeconfig")
	if err := controlplane.WriteAccess(access, client); err != nil {
		return a, err
	}
	argv := append(slices.Clone(c.opts.AgentCommand), string(p.Dir), access)
	made := &part{name: agentPart + " " + p.Name}
	if c.opts.Metrics {
		port, err := child.FreePort()
		if err != nil {
			return a, err
		}
		address := fmt.Sprint("127.0.0.1:", port)
		made.metrics = "http://" + address + "/metrics"
		argv = append(argv, address)
	}
	made.start = func() (*child.Process, error) {
		return child.Start(child.Spec{Name: made.name, Argv: argv, Log: c.agentLog(p.Name)})
	}
	return runningAgent{stop: made.stop, part: made}, made.up()
}

func agentOptions(dir hollow.Dir, client *rest.Config, log io.Writer) (opts agent.Options, err error) {
	spec, err := dir.ReadSpec()
	if err != nil {
		return opts, err
	}
	opts = agent.Options{
		Node: spec.Name, Client: client, Root: dir.Root(), Machine: spec.Machine, Preferences: preferences(spec),
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	if spec.NRI {
		opts.Authority, opts.StateDir = v1alpha1.AuthorityBerth, filepath.Join(string(dir), "state")
		opts.Enforce = agent.EnforceOptions{NRISocket: dir.NRI(), Cgroups: dir.Cgroups()}
		opts.SpecDirs = []string{dir.CDI()}
	}
	if spec.Devices != "" {
		opts.Devices, err = offer.Read("devices of "+spec.Name, []byte(spec.Devices))
	}
	return opts, err
}

func serveAgent(ctx context.Context, args []string, log io.Writer) error {
	client, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err != nil {
		return err
	}
	client.QPS = -1
	opts, err := agentOptions(hollow.Dir(args[0]), client, log)
	if err != nil {
		return err
	}
	if len(args) > 2 {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		opts.Metrics = registry
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		server := &http.Server{Addr: args[2], Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		go func() { opts.Log.Error("metrics server ended", "error", server.ListenAndServe()) }()
		defer server.Close()
	}
	return agent.Run(ctx, opts)
}

// preferences returns, by resource, how the node's device plugins choose devices.
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

// waitReports waits until `kubectl berth nodes` would show no problem with any node's report.
func (c *Cluster) waitReports(ctx context.Context) error {
	cluster, err := c.survey(metav1.NamespaceAll)
	if err != nil {
		return err
	}
	var missing string
	err = c.await(ctx, "nodes", func(ctx context.Context) bool {
		found, err := cluster.Survey(ctx, "")
		if err != nil {
			missing = err.Error()
			return false
		}
		for _, n := range found.Nodes() {
			if n.Trouble != nil {
				missing = n.Name + ": " + n.Trouble.Message
				return false
			}
		}
		return true
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %s", err, missing)
	}
	return err
}
