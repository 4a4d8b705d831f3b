package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/lab/peers/exports"
	"github.com/berth-dev/berth/topology"
)

// nrtName is the schedulerName of the scheduler of scheduler-plugins.
const nrtName = "topo-aware-scheduler"

// nrtMatch is the scheduler of scheduler-plugins with NodeResourceTopologyMatch. Berth's agents
// write NodeResourceTopologies instead of resource-topology-exporter.
type nrtMatch struct {
	*program
	strategy string
}

// resourceTopologies makes an agent write NodeResourceTopologies, with memory on every node.
func resourceTopologies(o *agent.Options) {
	o.Amounts = true
	if m, err := topology.Parse(o.Machine); err == nil {
		o.Client = rest.CopyConfig(o.Client)
		o.Client.Wrap(exports.WithMemory(m))
	}
}

// Title implements demo.Scheduler.
func (n *nrtMatch) Title() string { return "NodeResourceTopologyMatch, " + n.strategy }

// Manifests implements demo.Scheduler.
func (n *nrtMatch) Manifests() ([][]byte, error) {
	return agents("crds/topology.node.k8s.io_noderesourcetopologies.yaml")
}

// nrtConfig has the overreserve cache, as the plugin's README recommends.
const nrtConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q}
profiles:
- schedulerName: ` + nrtName + `
  plugins:
    multiPoint:
      enabled: [{name: NodeResourceTopologyMatch}]
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args:
      scoringStrategy: {type: %s}
      cacheResyncPeriodSeconds: 5
`

// Start implements demo.Scheduler.
func (n *nrtMatch) Start(ctx context.Context, c *demo.Cluster, _ []string) (func() error, error) {
	if err := c.StartAgents(ctx); err != nil {
		return nil, err
	}
	kubeconfig, err := n.kubeconfig(c)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.Dir(), "scheduler.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, nrtConfig, kubeconfig, n.strategy), 0o600); err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	if err != nil {
		return nil, err
	}
	touching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.OnStop(func() error { cancel(); return nil })
	go touch(touching, objects, c)
	return n.start(c, "--config="+path, "--secure-port=0")
}

// touchEvery is the longest interval between writes of resource-topology-exporter when it is
// deployed with --sleep-interval=10s.
const touchEvery = 10 * time.Second

// touch changes an annotation of each NodeResourceTopology regularly, as resource-topology-exporter
// does. The scheduler retries pods that fit nowhere only after such a change.
func touch(ctx context.Context, objects dynamic.Interface, c *demo.Cluster) {
	clock := time.NewTicker(touchEvery)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-clock.C:
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"rte.example.dev/update":%q}}}`, now.Format(time.RFC3339))
			for _, node := range c.Nodes {
				// A failed write is ignored, because the next write follows.
				_, _ = objects.Resource(nrt.NodeResourceTopologies).Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			}
		}
	}
}
