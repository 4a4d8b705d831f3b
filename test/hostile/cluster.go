package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/controlplane/controllers"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/line"
	"github.com/berth-dev/berth/test/podgroup"
	"github.com/berth-dev/berth/test/tenant"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/wrongclock"
)

// startLimit bounds the start of the cluster on a busy machine.
const startLimit = 5 * time.Minute

// The parts whose memory is watched, with what the chart lets them have where it says so.
const (
	mib             = 1 << 20
	schedulerBound  = 1024 * mib
	agentBound      = 256 * mib
	controllerBound = 256 * mib
)

// part is a process that runs all the time.
type part struct {
	spec    child.Spec
	base    string // of its files
	bound   int64  // of its resident set, bytes
	process *child.Process
	peak    int64
	// heap is what was in use before the tenant began.
	heap   uint64
	starts int
}

func (p *part) start() (err error) {
	p.process, err = child.Start(p.spec)
	p.starts++
	return err
}

// cluster is everything that runs.
type cluster struct {
	*demo.Cluster
	objects dynamic.Interface // an administrator's
	foe     *rest.Config
	parts   map[string]*part
	// views are what the replicas see, by name.
	views map[string]*line.Standby
	ports []int
	// deletions are those of friendly pods.
	deletions deletions
	stops     []func() error
}

// replicas are the schedulers. Which of them leads, the first to run, is up to them.
var replicas = []string{"scheduler-0", "scheduler-1"}

// startCluster starts everything. What has been started is in the result also when it fails.
func startCluster(ctx context.Context, o *options) (*cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := &cluster{parts: map[string]*part{}, views: map[string]*line.Standby{}}
	all := append(deploy.Manifests(), deploy.JobManifests()...)
	all = append(all, podgroup.Manifests()[1], podgroup.Reservations())
	var err error
	if c.deletions, err = newDeletions(o.dir); err != nil {
		return c, err
	}
	if !o.keep {
		c.stops = append(c.stops, func() error { return os.RemoveAll(string(c.deletions)) })
	}
	c.Cluster, err = demo.StartCluster(ctx, demo.ClusterOptions{Dir: o.dir, Nodes: specs(), NodeCommand: []string{os.Args[0], demo.VerbNode},
		Manifests: append(all, manifests), Flags: c.deletions.flags(), Keep: o.keep})
	if err != nil {
		return c, err
	}
	c.stops = append(c.stops, c.Stop)
	if c.objects, err = dynamic.NewForConfig(c.ControlPlane.RESTConfig()); err != nil {
		return c, err
	}
	stopControllers, err := controllers.Start(ctx, rest.AddUserAgent(c.ControlPlane.RESTConfig(), "controllers"))
	if err != nil {
		return c, err
	}
	c.stops = append(c.stops, func() error { stopControllers(); return nil })
	if c.foe, err = c.ControlPlane.UserConfig(tenant.User, []string{"system:authenticated"}); err != nil {
		return c, err
	}
	return c, errors.Join(c.startAgents(ctx), c.startController(ctx), c.startSchedulers(ctx), c.waitTenant(ctx))
}

// run starts this program in another role and keeps an eye on it.
func (c *cluster) run(name, verb string, bound int64, args ...string) error {
	base := filepath.Join(c.Dir(), name)
	p := &part{base: base, bound: bound, spec: child.Spec{Name: name, Log: base + ".log", Argv: append([]string{os.Args[0], verb, base}, args...)}}
	c.parts[name] = p
	c.stops = append(c.stops, func() error {
		if p.process != nil {
			p.process.Kill()
		}
		return nil
	})
	return p.start()
}

// access writes the kubeconfig of a service account of Berth's, as of a pod on the node if one is
// named.
func (c *cluster) access(ctx context.Context, account, node string) (string, error) {
	config, err := c.ControlPlane.TokenConfig(ctx, "berth-system", account, node)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.Dir(), account+node+".kubeconfig")
	return path, controlplane.WriteAccess(path, config)
}

func (c *cluster) startAgents(ctx context.Context) error {
	for _, n := range c.Nodes {
		path, err := c.access(ctx, "berth-agent", n.Name)
		if err != nil {
			return err
		}
		if err := c.run("agent-"+n.Name, verbAgent, agentBound, path, string(n.Dir)); err != nil {
			return err
		}
	}
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		reports, err := c.objects.Resource(v1alpha1.NodeTopologies).List(ctx, metav1.ListOptions{})
		ready := 0
		for i := 0; err == nil && i < len(reports.Items); i++ {
			if reason, _ := notReady(&reports.Items[i]); reason == "" {
				ready++
			}
		}
		return ready == len(c.Nodes), nil
	})
}

func (c *cluster) startController(ctx context.Context) error {
	path, err := c.access(ctx, "berth-controller", "")
	if err != nil {
		return err
	}
	return c.run("controller", verbController, controllerBound, path)
}

// startSchedulers starts the replicas as the chart does, one after the other, so that the first
// leads.
func (c *cluster) startSchedulers(ctx context.Context) error {
	for _, name := range replicas {
		if err := c.startScheduler(name); err != nil {
			return err
		}
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
			return c.views[replicas[0]].Leads(), c.parts[name].process.Ended()
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (c *cluster) startScheduler(name string) error {
	config, err := c.ControlPlane.UserConfig("system:kube-scheduler", nil)
	if err != nil {
		return err
	}
	view := &line.Standby{}
	var way *line.Line
	if way, err = line.New(config, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { view.Forward(way, out, r) })); err != nil {
		return err
	}
	c.views[name] = view
	c.stops = append(c.stops, func() error { way.Close(); return nil })
	s := trial.Scheduler{Dir: c.Dir(), Name: name, LeaderElect: true}
	if err := way.WriteKubeconfig(s.Access()); err != nil {
		return err
	}
	port, flags, err := s.Flags()
	if err != nil {
		return err
	}
	c.ports = append(c.ports, port)
	return c.run(name, verbScheduler, schedulerBound, append([]string{wrongclock.File(c.Dir(), name), "-v=2"}, flags...)...)
}

// owner returns an administrator's client of the friendly load, by whose name it is known who
// deletes.
func (c *cluster) owner() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(rest.AddUserAgent(c.ControlPlane.RESTConfig(), "owner"))
}

// waitTenant waits until the tenant may create what the role edit lets it, and its quota counts.
func (c *cluster) waitTenant(ctx context.Context) error {
	objects, err := dynamic.NewForConfig(c.foe)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := objects.Resource(sigs.PodGroups).Namespace(tenant.Namespace).List(ctx, metav1.ListOptions{})
		quota, errQuota := c.Client.CoreV1().ResourceQuotas(tenant.Namespace).Get(ctx, "tenant", metav1.GetOptions{})
		return err == nil && errQuota == nil && len(quota.Status.Hard) > 0, nil
	})
}

// keep starts parts again that have ended by themselves, and notes their memory. It says which
// have ended.
func (c *cluster) keep() (ended []string, err error) {
	for name, p := range c.parts {
		if p.process.Ended() != nil {
			ended = append(ended, fmt.Sprintf("%s: %s", name, p.process.LogTail(1000)))
			if err := p.start(); err != nil {
				return ended, err
			}
		}
		p.peak = max(p.peak, p.process.Memory("VmHWM"))
	}
	return ended, c.Ended()
}

// unsettle makes the view of replicas that do not lead late, and the clock of the last one wrong.
func (c *cluster) unsettle(late, wrong time.Duration) error {
	for _, v := range c.views {
		v.Late(late)
	}
	return wrongclock.Set(wrongclock.File(c.Dir(), replicas[1]), wrong)
}

// stop ends everything, the last first.
func (c *cluster) stop() error {
	var errs []error
	for i := len(c.stops) - 1; i >= 0; i-- {
		errs = append(errs, c.stops[i]())
	}
	return errors.Join(errs...)
}

// hollowDir is the directory of a node.
func (c *cluster) hollowDir(node string) hollow.Dir { return hollow.Dir(filepath.Join(c.Dir(), node)) }
