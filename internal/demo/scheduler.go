package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
)

// Scheduler is one of the contestants.
type Scheduler interface {
	// Title is its name for people.
	Title() string
	// Predicts says whether it attaches decisions to pods.
	Predicts() bool
	// Manifests are what it needs installed before the nodes start.
	Manifests() ([][]byte, error)
	// Start starts it on the cluster; self is the command line of the program that understands the
	// verbs. It returns when the scheduler is at work, with what stops it.
	Start(ctx context.Context, c *Cluster, self []string) (stop func() error, err error)
}

// Stock is kube-scheduler as it comes.
type Stock struct{}

// Title implements Scheduler.
func (Stock) Title() string { return "kube-scheduler" }

// Predicts implements Scheduler.
func (Stock) Predicts() bool { return false }

// Manifests implements Scheduler: none.
func (Stock) Manifests() ([][]byte, error) { return nil, nil }

// Start implements Scheduler.
func (Stock) Start(ctx context.Context, c *Cluster, self []string) (func() error, error) {
	kubeconfig, err := c.credentials()
	if err != nil {
		return nil, err
	}
	return c.startScheduler(ctx, append(self[:len(self):len(self)], VerbKubeScheduler, "--kubeconfig="+kubeconfig, "--leader-elect=true"))
}

// credentials writes the scheduler's kubeconfig into the cluster's directory and returns its path.
func (c *Cluster) credentials() (string, error) {
	path := filepath.Join(c.dir, "scheduler.kubeconfig")
	return path, c.ControlPlane.WriteKubeconfig(path, controlplane.Scheduler)
}

// lease is where kube-scheduler says that it leads.
const lease = "kube-scheduler"

// schedulerLog is the scheduler's log in the cluster's directory.
const schedulerLog = "scheduler.log"

// startScheduler runs a kube-scheduler as a child and waits until it holds its lease.
func (c *Cluster) startScheduler(ctx context.Context, argv []string) (func() error, error) {
	// Nothing connects to the scheduler here: port 0 keeps it from listening. A scheduler that
	// cannot renew its lease ends, and with it the demo: the machine may be so busy that the API
	// server takes seconds.
	argv = append(argv, "--secure-port=0", "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s", "--leader-elect-retry-period=1s")
	p, err := child.Start(child.Spec{Name: "scheduler", Argv: argv, Log: filepath.Join(c.dir, schedulerLog)})
	if err != nil {
		return nil, err
	}
	c.scheduler = p
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if p.Ended() != nil {
			return false, schedulerEnded(p)
		}
		l, err := c.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
		return err == nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "", nil
	})
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return p.Stop, nil
}

// commandFailed is how a command of Kubernetes logs the error that ends it
// (k8s.io/component-base/cli).
var commandFailed = regexp.MustCompile(`"command failed" err=(".*")\s*$`)

// schedulerEnded says why a scheduler has ended: its last words, or the end of its log.
func schedulerEnded(p *child.Process) error {
	if m := commandFailed.FindSubmatch(p.LogTail(20000)); m != nil {
		if why, err := strconv.Unquote(string(m[1])); err == nil {
			return errors.New(strings.ReplaceAll(why, "\n", "; "))
		}
	}
	return p.Ended()
}
