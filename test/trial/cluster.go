package trial

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/controlplane/controllers"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/test/line"
	"github.com/berth-dev/berth/test/wrongclock"
)

// Cluster is a demo's cluster with schedulers and other processes that can be killed and started
// again. Stop ends everything.
type Cluster struct {
	*demo.Cluster
	// Objects is a client for all kinds, with the rights of an administrator.
	Objects dynamic.Interface
	// Parts are the processes other than nodes, in the order in which they were added.
	Parts []*Part
}

// Start starts a control plane with these manifests, and the nodes. If it fails, the result has the
// parts that were started.
func Start(ctx context.Context, o demo.ClusterOptions) (c *Cluster, err error) {
	c = &Cluster{}
	o.NodeCommand = []string{os.Args[0], demo.VerbNode}
	if c.Cluster, err = demo.StartCluster(ctx, o); err != nil {
		return c, err
	}
	c.Objects, err = dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	return c, err
}

// Stop ends everything that was started.
func (c *Cluster) Stop() error {
	if c == nil || c.Cluster == nil {
		return nil
	}
	return c.Cluster.Stop()
}

// Urgent is a priority class of 1000.
const Urgent = "urgent"

// Manifests returns Berth's manifests, the class Urgent, the namespace, and more.
func Manifests(namespace string, more ...[]byte) [][]byte {
	own := `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: ` + Urgent + `}
value: 1000
---
apiVersion: v1
kind: Namespace
metadata: {name: ` + namespace + `}
`
	return append(append(deploy.Manifests(), more...), []byte(own))
}

// StartControllers runs the workload controllers, with the user name that the API server expects.
func (c *Cluster) StartControllers(ctx context.Context) error {
	stop, err := controllers.Start(ctx, rest.AddUserAgent(c.ControlPlane.RESTConfig(), "controllers"))
	if err == nil {
		c.OnStop(func() error { stop(); return nil })
	}
	return err
}

// File returns the path of a part's file in the cluster's directory.
func (c *Cluster) File(part, suffix string) string { return filepath.Join(c.Dir(), part+suffix) }

// Run runs this program in another role.
func (c *Cluster) Run(name string, role ...string) (*Part, error) {
	p := NewPart(func() (*child.Process, error) {
		return child.Start(child.Spec{Name: name, Log: c.File(name, ".log"), Argv: append([]string{os.Args[0]}, role...)})
	})
	if err := p.Start(); err != nil {
		return nil, err
	}
	c.Parts = append(c.Parts, p)
	c.OnStop(func() error { p.Kill(); return nil })
	return p, nil
}

// Access writes the kubeconfig of one of Berth's service accounts. If node is not "", the token is
// bound to the node like a pod's token.
func (c *Cluster) Access(ctx context.Context, account, node string) (path string, err error) {
	config, err := c.ControlPlane.TokenConfig(ctx, "berth-system", account, node)
	if err != nil {
		return "", err
	}
	path = c.File(account+node, ".kubeconfig")
	return path, controlplane.WriteAccess(path, config)
}

// Line starts a proxy from a scheduler to the API server; forward forwards or drops its requests.
func (c *Cluster) Line(forward func(*line.Line, http.ResponseWriter, *http.Request)) (way *line.Line, err error) {
	config, err := c.ControlPlane.UserConfig(controlplane.Scheduler.Name, nil)
	if err != nil {
		return nil, err
	}
	way, err = line.New(config, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { forward(way, out, r) }))
	if err == nil {
		c.OnStop(func() error { way.Close(); return nil })
	}
	return way, err
}

// StartScheduler starts a scheduler in the cluster's directory. way is its path to the API server;
// nil is the direct path. Without role it is Berth's scheduler, otherwise a role with the same
// flags.
func (c *Cluster) StartScheduler(s Scheduler, way *line.Line, role ...string) (*Part, error) {
	s.Dir = c.Dir()
	access, err := c.ControlPlane.UserConfig(controlplane.Scheduler.Name, nil)
	if way != nil {
		access = way.Access()
	}
	if err == nil {
		err = controlplane.WriteAccess(s.Access(), access)
	}
	if err != nil {
		return nil, err
	}
	port, flags, err := s.Flags()
	if err != nil {
		return nil, err
	}
	if len(role) == 0 {
		role = []string{demo.VerbBerthScheduler}
	}
	p, err := c.Run(s.Name, append(append(role, "-v=3"), flags...)...)
	if err == nil {
		p.Port = port
	}
	return p, err
}

// StartStock starts an unchanged kube-scheduler for pods with this schedulerName.
func (c *Cluster) StartStock(name string) error {
	s := Scheduler{Dir: c.Dir(), Name: name}
	flags, err := s.Stock()
	if err := errors.Join(err, c.ControlPlane.WriteKubeconfig(s.Access(), controlplane.Scheduler)); err != nil {
		return err
	}
	_, err = c.Run(name, append([]string{demo.VerbKubeScheduler}, flags...)...)
	return err
}

// StartReplica starts a scheduler with leader election, whose watches view delays. The role gets
// the file that controls its clock as an argument before the flags.
func (c *Cluster) StartReplica(s Scheduler, view *line.Standby, role ...string) (*Part, error) {
	way, err := c.Line(view.Forward)
	if err != nil {
		return nil, err
	}
	s.LeaderElect = true
	return c.StartScheduler(s, way, append(role, wrongclock.File(c.Dir(), s.Name))...)
}

// Ended returns an error if a process of the cluster has ended by itself.
func (c *Cluster) Ended() error {
	for _, p := range c.Parts {
		if err := p.Ended(); err != nil {
			return err
		}
	}
	return c.Cluster.Ended()
}

// Await calls done until it returns true, ctx ends, or the cluster ends.
func (c *Cluster) Await(ctx context.Context, done func(context.Context) bool) error {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return done(ctx), c.Ended()
	})
}
