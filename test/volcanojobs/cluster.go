package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/controlplane/controllers"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/jobs"
	"github.com/berth-dev/berth/test/trial"
)

// startLimit bounds the start of the cluster on a busy machine.
const startLimit = 4 * time.Minute

const (
	namespace = "jobs"
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

// policies are those of the nodes' Topology Managers. All nodes are one machine otherwise, and
// reserve CPU 0.
var policies = []string{"single-numa-node", "single-numa-node", "restricted", "best-effort", "none"}

func specs() []hollow.Spec {
	out := make([]hollow.Spec, len(policies))
	for i, policy := range policies {
		out[i] = hollow.Spec{Name: fmt.Sprintf("n%d", i), Machine: "package:2 numa:1 core:10 pu:1 mem:32Gi dist:10,21", StopTime: time.Second,
			KubeletConfig: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n" +
				"topologyManagerPolicy: " + policy + "\nreservedSystemCPUs: \"0\"\n"}
	}
	return out
}

// verbController makes this program berth-controller; argument: its kubeconfig.
const verbController = "controller"

// controller is that role.
func controller(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool) {
	if len(args) != 2 || args[0] != verbController {
		return 0, false
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // until the parent goes away
		os.Exit(0)
	}()
	config, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err == nil {
		err = jobs.Run(context.Background(), config, jobs.Options{Scheduler: "default-scheduler", Schedulers: []string{"default-scheduler", "volcano"}, Log: logr.Discard()})
	}
	fmt.Fprintln(stderr, "controller:", err)
	return 1, true
}

// cluster is a hollow cluster with agents, and a controller and a scheduler that can be killed.
type cluster struct {
	*demo.Cluster
	client client.Client
	stops  []func() error
	// parts are the scheduler and the controller.
	parts [2]part
	port  int // of the scheduler
}

// The parts that are killed.
const (
	schedulerPart = iota
	controllerPart
)

// part is a process that is started again when it was killed.
type part struct {
	spec    child.Spec
	process *child.Process
	deaths  int
}

func (p *part) start() (err error) {
	p.process, err = child.Start(p.spec)
	return err
}

// kill has it die at once, and starts it again.
func (p *part) kill() error {
	p.process.Kill()
	p.deaths++
	return p.start()
}

// startCluster starts everything. What has been started is in the result also when it fails.
func startCluster(ctx context.Context, o *options) (*cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := &cluster{}
	all := append(deploy.Manifests(), deploy.JobManifests()...)
	var err error
	c.Cluster, err = demo.StartCluster(ctx, demo.ClusterOptions{
		Dir: o.dir, Nodes: specs(), NodeCommand: []string{os.Args[0], demo.VerbNode}, Manifests: append(all, []byte(manifests)), Keep: o.keep,
	})
	if err != nil {
		return c, err
	}
	c.stops = append(c.stops, c.Stop)
	if c.client, err = newClient(c.ControlPlane.RESTConfig()); err != nil {
		return c, err
	}
	stopControllers, err := controllers.Start(ctx, c.ControlPlane.RESTConfig())
	if err != nil {
		return c, err
	}
	c.stops = append(c.stops, func() error { stopControllers(); return nil })
	stopAgents, err := c.StartAgents(ctx)
	if err != nil {
		return c, err
	}
	c.stops = append(c.stops, stopAgents)
	return c, c.startParts(ctx)
}

// newClient returns a client that knows Jobs and PodGroups.
func newClient(config *rest.Config) (client.Client, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, batch.AddToScheme, volcano.AddToScheme} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	return client.New(config, client.Options{Scheme: known})
}

// startParts starts the scheduler and the controller.
func (c *cluster) startParts(ctx context.Context) error {
	if err := c.configureScheduler(); err != nil {
		return err
	}
	account, err := c.ControlPlane.TokenConfig(ctx, "berth-system", "berth-controller", "")
	if err != nil {
		return err
	}
	token := filepath.Join(c.Dir(), "controller.kubeconfig")
	if err := controlplane.WriteAccess(token, account); err != nil {
		return err
	}
	c.parts[controllerPart].spec = child.Spec{Name: "controller", Log: filepath.Join(c.Dir(), "controller.log"), Argv: []string{os.Args[0], verbController, token}}
	for i := range c.parts {
		if err := c.parts[i].start(); err != nil {
			return err
		}
		c.stops = append(c.stops, func() error { c.parts[i].process.Kill(); return nil })
	}
	return nil
}

// configureScheduler writes the scheduler's files, and says how it is started.
func (c *cluster) configureScheduler() error {
	s := trial.Scheduler{Dir: c.Dir(), Name: "scheduler"}
	if err := c.ControlPlane.WriteKubeconfig(s.Access(), controlplane.Scheduler); err != nil {
		return err
	}
	port, flags, err := s.Flags()
	c.port = port
	c.parts[schedulerPart].spec = child.Spec{Name: "scheduler", Log: filepath.Join(c.Dir(), "scheduler.log"), Argv: append(
		[]string{os.Args[0], demo.VerbBerthScheduler, "-v=3"}, flags...)}
	return err
}

// ended says that a part has ended by itself.
func (c *cluster) ended() error {
	return errors.Join(c.parts[schedulerPart].process.Ended(), c.parts[controllerPart].process.Ended(), c.Ended())
}

// stop ends everything, the last first.
func (c *cluster) stop() error {
	var errs []error
	for i := len(c.stops) - 1; i >= 0; i-- {
		errs = append(errs, c.stops[i]())
	}
	return errors.Join(errs...)
}
