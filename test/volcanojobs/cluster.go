package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/jobs"
	"github.com/berth-dev/berth/test/trial"
)

const namespace = "jobs"

// policies are the policies of the nodes' Topology Managers. Apart from that, all nodes are equal
// and reserve CPU 0.
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

// controller runs berth-controller.
func controller(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool) {
	if len(args) != 2 || args[0] != verbController {
		return 0, false
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // until the parent ends
		os.Exit(0)
	}()
	config, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err == nil {
		err = jobs.Run(context.Background(), config, jobs.Options{Scheduler: "default-scheduler", Schedulers: []string{"default-scheduler", "volcano"}, Log: logr.Discard()})
	}
	fmt.Fprintln(stderr, "controller:", err)
	return 1, true
}

// cluster is a cluster with agents, and a controller and a scheduler that can be killed.
type cluster struct {
	*trial.Cluster
	client client.Client
}

// The parts that are killed, in the order in which they are started.
const (
	schedulerPart = iota
	controllerPart
)

// startCluster starts everything. If it fails, the result has the parts that were started.
func startCluster(ctx context.Context, o *options) (c *cluster, err error) {
	c = &cluster{}
	c.Cluster, err = trial.Start(ctx, demo.ClusterOptions{Dir: o.dir, Nodes: specs(), Manifests: trial.Manifests(namespace, deploy.JobManifests()...), Keep: o.keep})
	if err != nil {
		return c, err
	}
	if c.client, err = newClient(c.ControlPlane.RESTConfig()); err != nil {
		return c, err
	}
	if err = errors.Join(c.StartControllers(ctx), c.StartAgents(ctx)); err != nil {
		return c, err
	}
	if _, err = c.StartScheduler(trial.Scheduler{Name: "scheduler"}, nil); err != nil {
		return c, err
	}
	token, err := c.Access(ctx, "berth-controller", "")
	if err != nil {
		return c, err
	}
	_, err = c.Run("controller", verbController, token)
	return c, err
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
