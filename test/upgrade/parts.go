package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/trial"
)

// namespace is the namespace of the chart.
const namespace = "berth-system"

// parts are the processes of Berth on a cluster.
type parts struct {
	*trial.Cluster
	count     int
	scheduler *child.Process
	agents    map[string]*child.Process // by node
	// led has the version and the log of every scheduler that has run.
	led [][2]string
}

// replaceScheduler starts a release's scheduler. When it is ready, replaceScheduler stops the
// previous one, as a Deployment does.
func (p *parts) replaceScheduler(ctx context.Context, r *release) error {
	dir, err := p.folder("scheduler")
	if err != nil {
		return err
	}
	access, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "scheduler.yaml")
	if err := errors.Join(p.ControlPlane.WriteKubeconfig(access, controlplane.Scheduler), r.writeConfig(config, access)); err != nil {
		return err
	}
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	next, err := start("scheduler "+r.version, dir, r.scheduler, "--config="+config, "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", port),
		"--cert-dir="+dir, "--authorization-always-allow-paths=/readyz", "-v=2")
	if err != nil {
		return err
	}
	before := p.scheduler
	p.scheduler = next
	p.led = append(p.led, [2]string{r.version, next.Log})
	err = waitReady(ctx, next, fmt.Sprintf("https://127.0.0.1:%d/readyz", port))
	if before != nil {
		err = errors.Join(err, before.Stop())
	}
	return err
}

// replaceAgents replaces one node's agent after the other, as a DaemonSet does.
func (p *parts) replaceAgents(ctx context.Context, r *release) error {
	for _, node := range p.Nodes {
		if before := p.agents[node.Name]; before != nil {
			if err := before.Stop(); err != nil {
				return err
			}
		}
		if err := p.startAgent(ctx, r, node); err != nil {
			return fmt.Errorf("agent of node %s: %w", node.Name, err)
		}
	}
	return nil
}

func (p *parts) startAgent(ctx context.Context, r *release, node *hollow.Process) error {
	spec, err := node.Dir.ReadSpec()
	if err != nil {
		return err
	}
	dir, err := p.folder("agent-" + node.Name)
	if err != nil {
		return err
	}
	access, err := p.Access(ctx, "berth-agent", node.Name)
	if err != nil {
		return err
	}
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	address := fmt.Sprint("127.0.0.1:", port)
	agent, err := start("agent "+r.version, dir, r.agent, "--node-name="+node.Name, "--kubeconfig="+access, "--kubelet-root-dir="+node.Dir.Root(),
		"--machine="+spec.Machine, "--device-preferences="+preferences(spec), "--listen="+address)
	if err != nil {
		return err
	}
	p.agents[node.Name] = agent
	return waitReady(ctx, agent, "http://"+address+"/readyz")
}

// preferences describes how the node's device plugins choose among devices.
func preferences(spec *hollow.Spec) string {
	var out []string
	for i := range spec.Plugins {
		word := "none"
		if spec.Plugins[i].Prefer {
			word = "sorted"
		}
		out = append(out, spec.Plugins[i].Resource+"="+word)
	}
	return strings.Join(out, ",")
}

// folder creates a folder for one process.
func (p *parts) folder(name string) (string, error) {
	p.count++
	dir := filepath.Join(p.Dir(), fmt.Sprintf("%02d-%s", p.count, name))
	return dir, os.Mkdir(dir, 0o700)
}

func start(name, dir string, argv ...string) (*child.Process, error) {
	return child.Start(child.Spec{Name: name, Argv: argv, Log: filepath.Join(dir, "log"), Foreign: true})
}

// readyLimit is how long a process may take to become ready on a busy machine.
const readyLimit = 2 * time.Minute

// waitReady waits until the URL of the process returns 200.
func waitReady(ctx context.Context, p *child.Process, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var last error
	for range trial.Every(ctx, 100*time.Millisecond) {
		if err := p.Ended(); err != nil {
			return err
		}
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		last = err
	}
	return fmt.Errorf("%s is not ready: %w", p.Name, errors.Join(ctx.Err(), last))
}

// boundBy returns the versions of the schedulers whose logs have a binding of the pod. It returns
// "" if none has.
func (p *parts) boundBy(pod string) (versions string) {
	line := fmt.Appendf(nil, "\"Successfully bound pod to node\" pod=%q", demo.Namespace+"/"+pod)
	for _, s := range p.led {
		if log, err := os.ReadFile(s[1]); err == nil && bytes.Contains(log, line) {
			versions += " " + s[0]
		}
	}
	return strings.TrimSpace(versions)
}

// contended counts the broken promises with outcome contended in the schedulers' logs. Usually a
// pod was ending, and the watch showed its deletion only after the Binding (internal/ledger). On a
// busy machine the watch is often later than the end of the containers.
func (p *parts) contended() (n int, err error) {
	for _, s := range p.led {
		log, e := os.ReadFile(s[1])
		n, err = n+bytes.Count(log, []byte(` outcome="contended"`)), errors.Join(err, e)
	}
	return n, err
}

// ended returns an error if a process has ended by itself.
func (p *parts) ended() error {
	errs := []error{p.scheduler.Ended()}
	for _, a := range p.agents {
		errs = append(errs, a.Ended())
	}
	return errors.Join(errs...)
}

func (p *parts) stopParts() error {
	var errs []error
	if p.scheduler != nil {
		errs = append(errs, p.scheduler.Stop())
	}
	for _, a := range p.agents {
		errs = append(errs, a.Stop())
	}
	return errors.Join(errs...)
}
