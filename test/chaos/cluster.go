package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/controlplane/controllers"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/standalone"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/wrongclock"
)

// process is a part of the cluster. Only the driver starts, stops and breaks it.
type process struct {
	*trial.Part
	name  string
	log   string
	way   way           // path of its connections; nil if it is no client
	wrong time.Duration // the error of its clock
}

// signal sends a signal to a process that is up.
func (p *process) signal(s syscall.Signal) {
	if up := p.Process(); up != nil {
		up.Signal(s)
	}
}

// cluster is everything that runs.
type cluster struct {
	dir    string
	self   string
	fraud  fraud
	admin  *rest.Config
	client kubernetes.Interface
	groups dynamic.Interface
	specs  []hollow.Spec
	procs  map[string]*process
	order  []string // of start
	// bindings holds when a scheduler last sent the Binding of a pod, by its namespace and name.
	bindings sync.Map

	stopControllers func() // nil before they run
}

// startLimit bounds the start of the cluster on a busy machine.
const startLimit = 4 * time.Minute

// startCluster starts all processes. If it fails, the result has the processes that were started.
func startCluster(ctx context.Context, o *options) (*cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := &cluster{fraud: o.fraud, specs: specs(o.nodes), procs: map[string]*process{}}
	var err error
	if c.self, err = os.Executable(); err != nil {
		return c, err
	}
	if c.dir, err = os.MkdirTemp(o.dir, "chaos-"); err != nil {
		return c, err
	}
	for _, start := range []func(context.Context) error{c.startStorage, c.startAPIServer, c.startControllers, c.startNodes} {
		if err := start(ctx); err != nil {
			return c, err
		}
	}
	for i := range schedulers {
		if err := c.startScheduler(i); err != nil {
			return c, err
		}
	}
	if err := c.startShadow(ctx); err != nil {
		return c, err
	}
	return c, c.startRival()
}

func (c *cluster) add(p *process) error {
	p.log = filepath.Join(c.dir, p.name+".log")
	c.procs[p.name] = p
	c.order = append(c.order, p.name)
	return p.Start()
}

// run returns this program in another role.
func (c *cluster) run(name string, args ...string) *trial.Part {
	return trial.NewPart(func() (*child.Process, error) {
		return child.Start(child.Spec{Name: name, Argv: append([]string{c.self}, args...), Log: filepath.Join(c.dir, name+".log")})
	})
}

func (c *cluster) planeDir() string { return filepath.Join(c.dir, "plane") }

// startStorage starts etcd and the line that leads to it.
func (c *cluster) startStorage(ctx context.Context) error {
	p := &process{name: storageName, Part: c.run(storageName, verbStorage, c.planeDir(), filepath.Join(c.dir, storageURLFile))}
	if err := c.add(p); err != nil {
		return err
	}
	url, err := trial.AwaitFile(ctx, p.Process(), filepath.Join(c.dir, storageURLFile))
	if err != nil {
		return err
	}
	p.way, err = newStorageLine(c.storageSocket(), strings.TrimPrefix(string(url), "unix://"))
	return err
}

func (c *cluster) storageSocket() string { return filepath.Join(c.dir, "etcd.sock") }

func (c *cluster) startAPIServer(ctx context.Context) error {
	args := []string{verbAPIServer, c.dir, c.planeDir(), "unix://" + c.storageSocket()}
	for i := range c.specs {
		args = append(args, c.specs[i].Name)
	}
	p := &process{name: apiServerName, Part: c.run(apiServerName, args...)}
	if err := c.add(p); err != nil {
		return err
	}
	if _, err := trial.AwaitFile(ctx, p.Process(), filepath.Join(c.dir, standalone.ReadyFile)); err != nil {
		return err
	}
	var err error
	if c.admin, err = c.credentials(adminConfig); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.admin); err != nil {
		return err
	}
	c.groups, err = dynamic.NewForConfig(c.admin)
	return err
}

// credentials reads a file of the control plane.
func (c *cluster) credentials(file string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, file))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// lineFor makes a line with the credentials and the kubeconfig that leads to it.
func (c *cluster) lineFor(name string, config *rest.Config, f fraud) (w *clientLine, kubeconfig string, err error) {
	if w, err = newClientLine(config); err != nil {
		return nil, "", err
	}
	w.fraud, w.bindings = f, &c.bindings
	kubeconfig = filepath.Join(c.dir, name+".kubeconfig")
	return w, kubeconfig, controlplane.WriteAccess(kubeconfig, w.Access())
}

func (c *cluster) nodeDir(node string) hollow.Dir { return hollow.Dir(filepath.Join(c.dir, node)) }

// startNodes starts the nodes, and the agent of each node when the Node exists.
func (c *cluster) startNodes(ctx context.Context) error {
	for i := range c.specs {
		if err := c.startNode(&c.specs[i]); err != nil {
			return err
		}
	}
	for i := range c.specs {
		if err := c.waitNode(ctx, c.specs[i].Name); err != nil {
			return err
		}
		if err := c.startAgent(ctx, c.specs[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) startNode(spec *hollow.Spec) error {
	config, err := c.credentials(nodeConfig(spec.Name))
	if err != nil {
		return err
	}
	p := &process{name: "node-" + spec.Name}
	var path string
	if p.way, path, err = c.lineFor(p.name, config, ""); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	dir := c.nodeDir(spec.Name)
	p.Part = trial.NewPart(func() (*child.Process, error) {
		n, err := hollow.Launch(dir, spec, kubeconfig, []string{c.self, demo.VerbNode})
		if err != nil {
			return nil, err
		}
		return n.Process, nil
	})
	err = c.add(p)
	p.log = dir.Log()
	return err
}

func (c *cluster) waitNode(ctx context.Context, name string) error {
	n := &hollow.Process{Process: c.procs["node-"+name].Process(), Dir: c.nodeDir(name)}
	n.Process.Name = name
	return n.WaitReady(ctx, c.client)
}

func (c *cluster) startAgent(ctx context.Context, node string) error {
	config, err := controlplane.Account{Namespace: "berth-system", Name: "berth-agent"}.Config(ctx, c.admin, node)
	if err != nil {
		return err
	}
	p := &process{name: "agent-" + node}
	var path string
	if p.way, path, err = c.lineFor(p.name, config, ""); err != nil {
		return err
	}
	p.Part = c.run(p.name, verbAgent, path, string(c.nodeDir(node)), wrongclock.File(c.dir, p.name))
	return c.add(p)
}

func (c *cluster) startScheduler(i int) error {
	config, err := c.credentials(schedulerConfig)
	if err != nil {
		return err
	}
	p := &process{name: fmt.Sprintf("scheduler-%d", i)}
	way, path, err := c.lineFor(p.name, config, c.fraud)
	if err != nil {
		return err
	}
	p.way = way
	way.view.Late(viewLate)
	s := trial.Scheduler{Dir: c.dir, Name: p.name, LeaderElect: true}
	role, configure := []string{wrongclock.VerbScheduler, wrongclock.File(c.dir, p.name)}, s.Flags
	if c.fraud == fraudStock {
		role, configure = []string{demo.VerbKubeScheduler, "--kubeconfig=" + path}, s.Serving
	}
	port, flags, err := configure()
	if err != nil {
		return err
	}
	p.Part = c.run(p.name, append(append(role, flags...),
		"--leader-elect", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s", "-v=3")...)
	p.Port = port
	return c.add(p)
}

// rivalName is the name of the other scheduler, an unchanged kube-scheduler.
const rivalName = "rival"

// startRival starts a scheduler that puts pods on the same nodes without regard to NUMA nodes.
func (c *cluster) startRival() error {
	s := trial.Scheduler{Dir: c.dir, Name: rivalName}
	config, err := c.credentials(schedulerConfig)
	if err != nil {
		return err
	}
	flags, err := s.Stock()
	if err := errors.Join(err, controlplane.WriteAccess(s.Access(), config)); err != nil {
		return err
	}
	return c.add(&process{name: rivalName, Part: c.run(rivalName, append([]string{demo.VerbKubeScheduler}, flags...)...)})
}

// stop ends all processes, the control plane last, checks that none is left, and removes their
// files unless keep is set.
func (c *cluster) stop(keep bool) error {
	var errs []error
	if c.stopControllers != nil {
		c.stopControllers()
	}
	for _, name := range slices.Backward(c.order) {
		p := c.procs[name]
		p.signal(syscall.SIGCONT)
		p.Kill()
		if p.way != nil {
			p.way.close()
		}
	}
	errs = append(errs, c.survivors())
	if !keep && c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// survivors returns an error that names a process that belongs to the cluster and still runs.
func (c *cluster) survivors() error {
	if c.dir == "" {
		return nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file) // fails for processes that end meanwhile
		if err == nil && bytes.Contains(data, []byte(c.dir+"/")) {
			return fmt.Errorf("%s still runs: %q", filepath.Dir(file), data)
		}
	}
	return nil
}

// logsOf returns the logs that concern the node; "" means only the schedulers.
func (c *cluster) logsOf(node string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{apiServerName, "scheduler-0", "scheduler-1", shadowName, "agent-" + node, "node-" + node} {
		if p := c.procs[name]; p != nil {
			out[name] = p.log
		}
	}
	return out
}

// jump sets the clock of a process forward, or with a negative duration back. If the process is
// down, its clock is wrong after its start.
func (c *cluster) jump(p *process, by time.Duration) error {
	p.wrong += by
	return wrongclock.Set(wrongclock.File(c.dir, p.name), p.wrong)
}

// startControllers runs the controllers for the tenant's quota and role.
func (c *cluster) startControllers(ctx context.Context) (err error) {
	c.stopControllers, err = controllers.Start(ctx, c.admin)
	return err
}
