package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/test/standalone"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/usage"
)

// verbPlane is the verb of the child process that is the control plane.
const verbPlane = "control-plane"

// Files of the control plane's folder.
const (
	adminKubeconfig     = "admin.kubeconfig"
	schedulerKubeconfig = "scheduler.kubeconfig"
)

// servePlane runs a control plane with Berth's manifests until the parent process ends.
func servePlane(ctx context.Context, dir string, stdin io.Reader) error {
	ctx, cancel := child.WithParent(ctx, stdin)
	defer cancel()
	log, err := os.Create(filepath.Join(dir, "kube-apiserver.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s := standalone.Service{
		Options: controlplane.Options{Dir: dir, Log: log, Around: labelled, Flags: []string{
			"--etcd-compaction-interval=1m", // bounds the size of the database
		}},
		Out: dir, Manifests: deploy.Manifests(),
		Users: map[string]controlplane.User{adminKubeconfig: controlplane.Admin, schedulerKubeconfig: controlplane.Scheduler},
	}
	return s.Serve(ctx)
}

// plane is the control plane's process, with an administrator's clients.
type plane struct {
	*child.Process
	dir  string
	core kubernetes.Interface // protobuf
	raw  rest.Interface       // JSON, for objects that this package encodes
}

func startPlane(ctx context.Context, dir string, at place) (*plane, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c, err := child.Start(child.Spec{Name: verbPlane, Argv: []string{self, verbPlane, dir}, Log: filepath.Join(dir, verbPlane+".log"), At: at.start})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	p := &plane{Process: c, dir: dir}
	if _, err = trial.AwaitFile(ctx, c, filepath.Join(dir, standalone.ReadyFile)); err == nil {
		err = p.connect()
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return p, nil
}

func (p *plane) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, adminKubeconfig))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1
	json, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	p.raw = json.CoreV1().RESTClient()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	p.core, err = kubernetes.NewForConfig(config)
	return err
}

// calm waits until the control plane has finished the work of earlier runs, which means that it
// uses little processor time for a while, except for heartbeats.
func (p *plane) calm(ctx context.Context) error {
	const little = 600 * time.Millisecond // per second
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	last, calm := usage.CPU(p.Process), 0
	for range 10 {
		select {
		case <-clock.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		now := usage.CPU(p.Process)
		if calm++; now-last > little {
			calm = 0
		}
		if last = now; calm == 2 {
			return nil
		}
	}
	return nil // the load is the same for both schedulers
}

// events returns the number of Events.
func (p *plane) events(ctx context.Context) (int64, error) {
	list, err := p.core.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return int64(len(list.Items)) + ptr.Deref(list.RemainingItemCount, 0), nil
}

// metrics returns the API server's metrics.
func (p *plane) metrics(ctx context.Context) (metrics, error) {
	text, err := p.raw.Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("metrics of the API server: %w", err)
	}
	return parseMetrics(text), nil
}
