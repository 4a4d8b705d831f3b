package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/line"
	"github.com/berth-dev/berth/test/podgroup"
	"github.com/berth-dev/berth/test/tenant"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/usage"
	"github.com/berth-dev/berth/test/wrongclock"
)

// The memory limits of the checked parts: the chart's limit if it sets one.
const (
	mib             = 1 << 20
	schedulerBound  = 1024 * mib
	agentBound      = 256 * mib
	controllerBound = 256 * mib
)

// part is a process that runs all the time.
type part struct {
	*trial.Part
	base  string // prefix of the names of its files
	bound int64  // limit of its resident set in bytes
	peak  int64
	// heap is the heap in use before the tenant began.
	heap uint64
}

// cluster is everything that runs.
type cluster struct {
	*trial.Cluster
	foe   *rest.Config
	parts map[string]*part
	// views delay the watches of the replicas, by name.
	views map[string]*line.Standby
	// deletions are the deletions of friendly pods.
	deletions deletions
}

// replicas are the schedulers. The one that starts first leads.
var replicas = []string{"scheduler-0", "scheduler-1"}

// startCluster starts everything. If it fails, the result has the parts that were started.
func startCluster(ctx context.Context, o *options, by deletions) (c *cluster, err error) {
	c = &cluster{parts: map[string]*part{}, views: map[string]*line.Standby{}, deletions: by}
	all := append(deploy.Manifests(), deploy.JobManifests()...)
	all = append(all, podgroup.Manifests()[1], podgroup.Reservations(), manifests)
	c.Cluster, err = trial.Start(ctx, demo.ClusterOptions{Dir: o.dir, Nodes: specs(), Manifests: all, Keep: o.keep,
		ControlPlane: controlplane.Options{Flags: by.flags()}})
	if err != nil {
		return c, err
	}
	if c.foe, err = c.ControlPlane.UserConfig(tenant.User, []string{"system:authenticated"}); err != nil {
		return c, err
	}
	return c, errors.Join(c.StartControllers(ctx), c.startAgents(ctx), c.startController(ctx), c.startSchedulers(ctx), c.waitTenant(ctx))
}

// run starts this program in another role and adds it to the watched parts.
func (c *cluster) run(name, verb string, bound int64, args ...string) error {
	p, err := c.Run(name, append([]string{verb, c.File(name, "")}, args...)...)
	if err == nil {
		c.add(name, p, bound)
	}
	return err
}

func (c *cluster) add(name string, p *trial.Part, bound int64) {
	c.parts[name] = &part{Part: p, base: c.File(name, ""), bound: bound}
}

func (c *cluster) startAgents(ctx context.Context) error {
	for _, n := range c.Nodes {
		path, err := c.Access(ctx, "berth-agent", n.Name)
		if err != nil {
			return err
		}
		if err := c.run("agent-"+n.Name, verbAgent, agentBound, path, string(n.Dir)); err != nil {
			return err
		}
	}
	return c.Await(ctx, func(ctx context.Context) bool {
		reports, err := c.Objects.Resource(v1alpha1.NodeTopologies).List(ctx, metav1.ListOptions{})
		ready := 0
		for i := 0; err == nil && i < len(reports.Items); i++ {
			if reason, _ := notReady(&reports.Items[i]); reason == "" {
				ready++
			}
		}
		return ready == len(c.Nodes)
	})
}

func (c *cluster) startController(ctx context.Context) error {
	path, err := c.Access(ctx, "berth-controller", "")
	if err != nil {
		return err
	}
	return c.run("controller", verbController, controllerBound, path)
}

// startSchedulers starts the replicas as the chart does, one after the other, so that the first
// leads.
func (c *cluster) startSchedulers(ctx context.Context) error {
	for _, name := range replicas {
		c.views[name] = &line.Standby{}
		p, err := c.StartReplica(trial.Scheduler{Name: name}, c.views[name], verbScheduler, c.File(name, ""))
		if err != nil {
			return err
		}
		c.add(name, p, schedulerBound)
		if err := c.Await(ctx, func(context.Context) bool { return c.views[replicas[0]].Leads() }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// owner returns an administrator's client for the friendly load. Its user agent shows who deletes.
func (c *cluster) owner() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(rest.AddUserAgent(c.ControlPlane.RESTConfig(), "owner"))
}

// waitTenant waits until the tenant has the rights of the role edit and its quota counts.
func (c *cluster) waitTenant(ctx context.Context) error {
	objects, err := dynamic.NewForConfig(c.foe)
	if err != nil {
		return err
	}
	return c.Await(ctx, func(ctx context.Context) bool {
		_, err := objects.Resource(sigs.PodGroups).Namespace(tenant.Namespace).List(ctx, metav1.ListOptions{})
		quota, errQuota := c.Client.CoreV1().ResourceQuotas(tenant.Namespace).Get(ctx, "tenant", metav1.GetOptions{})
		return err == nil && errQuota == nil && len(quota.Status.Hard) > 0
	})
}

// keep restarts parts that have ended by themselves, and records their memory. It returns the ended
// parts.
func (c *cluster) keep() (ended []string, err error) {
	for name, p := range c.parts {
		if p.Ended() != nil {
			ended = append(ended, fmt.Sprintf("%s: %s", name, p.Process().LogTail(1000)))
			if err := p.Start(); err != nil {
				return ended, err
			}
		}
		p.peak = max(p.peak, usage.Memory(p.Process(), "VmHWM"))
	}
	return ended, c.Cluster.Cluster.Ended() // parts that have ended are started again above
}

// unsettle delays the watches of replicas that do not lead, and sets the clock of the last one
// wrong.
func (c *cluster) unsettle(late, wrong time.Duration) error {
	for _, v := range c.views {
		v.Late(late)
	}
	return wrongclock.Set(wrongclock.File(c.Dir(), replicas[1]), wrong)
}

// hollowDir is the directory of a node.
func (c *cluster) hollowDir(node string) hollow.Dir { return hollow.Dir(filepath.Join(c.Dir(), node)) }
