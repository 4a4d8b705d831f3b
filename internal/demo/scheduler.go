package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
)

// Scheduler is one of the compared schedulers.
type Scheduler interface {
	// Title is the scheduler's name in reports.
	Title() string
	// Predicts reports whether the scheduler attaches decisions to pods.
	Predicts() bool
	// Manifests are the objects that must exist before the nodes start.
	Manifests() ([][]byte, error)
	// Start starts the scheduler on the cluster and returns when the scheduler is ready. stop ends
	// the scheduler. self is the command line of the program that understands the verbs.
	Start(ctx context.Context, c *Cluster, self []string) (stop func() error, err error)
}

// Stock is the stock kube-scheduler.
type Stock struct{}

// Title implements Scheduler.
func (Stock) Title() string { return "kube-scheduler" }

// Predicts implements Scheduler.
func (Stock) Predicts() bool { return false }

// Manifests implements Scheduler. Stock has no manifests.
func (Stock) Manifests() ([][]byte, error) { return nil, nil }

// Start implements Scheduler.
func (Stock) Start(ctx context.Context, c *Cluster, self []string) (func() error, error) {
	kubeconfig, err := c.credentials()
	if err != nil {
		return nil, err
	}
	if err := c.startSchedulers(append(self[:len(self):len(self)], VerbKubeScheduler, "--kubeconfig="+kubeconfig, "--leader-elect=true")); err != nil {
		return nil, err
	}
	if err := c.waitLeader(ctx); err != nil {
		return nil, errors.Join(err, c.stopSchedulers())
	}
	return c.stopSchedulers, nil
}

// credentials writes the scheduler's kubeconfig into the cluster's directory and returns its path.
func (c *Cluster) credentials() (string, error) {
	path := filepath.Join(c.dir, "scheduler.kubeconfig")
	return path, c.ControlPlane.WriteKubeconfig(path, controlplane.Scheduler)
}

// lease is the name of kube-scheduler's Lease.
const lease = "kube-scheduler"

// schedulerLog is the name of the first scheduler's log file in Cluster.dir.
const schedulerLog = "scheduler.log"

func (c *Cluster) startSchedulers(argv []string) error {
	for i := range max(1, c.opts.Schedulers) {
		p, err := c.schedulerPart(i, argv)
		if err == nil {
			err = p.up()
		}
		if err != nil {
			return errors.Join(err, c.stopSchedulers())
		}
		c.schedulers = append(c.schedulers, p)
	}
	return nil
}

func (c *Cluster) schedulerPart(i int, argv []string) (*part, error) {
	name, log := schedulerPart, schedulerLog
	if i > 0 {
		name = fmt.Sprintf("%s-%d", schedulerPart, i+1)
		log = name + ".log"
	}
	// The default is long, because on a busy machine the API server may take seconds, and a
	// scheduler that cannot renew its lease ends, which ends the demo.
	lease := cmp.Or(c.opts.Lease, time.Minute)
	argv = append(slices.Clone(argv), fmt.Sprint("--leader-elect-lease-duration=", lease), fmt.Sprint("--leader-elect-renew-deadline=", lease*5/6),
		"--leader-elect-retry-period=1s")
	p := &part{name: name}
	if c.opts.Metrics {
		port, err := child.FreePort()
		if err != nil {
			return nil, err
		}
		p.metrics = fmt.Sprintf("https://127.0.0.1:%d/metrics", port)
		argv = append(argv, "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", port), "--cert-dir="+filepath.Join(c.dir, name),
			"--authorization-always-allow-paths=/metrics,/healthz,/readyz")
	} else {
		argv = append(argv, "--secure-port=0") // the scheduler does not listen
	}
	p.start = func() (*child.Process, error) {
		return child.Start(child.Spec{Name: name, Argv: argv, Log: filepath.Join(c.dir, log)})
	}
	return p, nil
}

func (c *Cluster) waitLeader(ctx context.Context) error {
	return c.await(ctx, "scheduler: no lease", func(ctx context.Context) bool { return c.held(ctx, metav1.NamespaceSystem, lease) })
}

func (c *Cluster) held(ctx context.Context, namespace, name string) bool {
	l, err := c.Client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != ""
}

func (c *Cluster) stopSchedulers() error {
	var g errgroup.Group
	for _, p := range c.schedulers {
		g.Go(p.stop)
	}
	c.schedulers = nil
	return g.Wait()
}

// commandFailed matches the log line with which a command of Kubernetes ends after an error
// (k8s.io/component-base/cli).
var commandFailed = regexp.MustCompile(`"command failed" err=(".*")\s*$`)

// schedulerEnded explains why a scheduler has ended, with its last error, or with the end of its
// log.
func schedulerEnded(p *child.Process) error {
	if why := lastWords(p); why != "" {
		return fmt.Errorf("%s: %s", p.Name, why)
	}
	return p.Ended()
}

// lastWords returns the error with which a command of Kubernetes ended, or "".
func lastWords(p *child.Process) string {
	if m := commandFailed.FindSubmatch(p.LogTail(20000)); m != nil {
		if why, err := strconv.Unquote(string(m[1])); err == nil {
			return strings.ReplaceAll(why, "\n", "; ")
		}
	}
	return ""
}
