package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
)

// Files of the control plane's folder.
const (
	adminKubeconfig     = "admin.kubeconfig"
	schedulerKubeconfig = "scheduler.kubeconfig"
)

// schedulerUser is the stock scheduler's; deploy/rbac lets it read what Berth reads.
const schedulerUser = "system:kube-scheduler"

const readyLine = "ready\n"

// servePlane runs a control plane with Berth's manifests until stdin ends, and says so on stdout
// when it is ready.
func servePlane(ctx context.Context, dir string, stdin io.Reader, stdout io.Writer) (err error) {
	log, err := os.Create(filepath.Join(dir, "kube-apiserver.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, Log: log, Flags: []string{
		"--etcd-compaction-interval=1m", // the database's size is bounded
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	if err := cp.Apply(ctx, deploy.Manifests()...); err != nil {
		return err
	}
	if err := writeCredentials(cp, dir); err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, readyLine); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, stdin); close(gone) }()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	return nil
}

func writeCredentials(cp *controlplane.ControlPlane, dir string) error {
	for _, c := range []struct {
		file, user string
		groups     []string
	}{{adminKubeconfig, "clusterbench", []string{"system:masters"}}, {schedulerKubeconfig, schedulerUser, nil}} {
		data, err := cp.Kubeconfig(c.user, c.groups)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// plane is the control plane's process, with an administrator's clients.
type plane struct {
	*child.Process
	dir  string
	core kubernetes.Interface // protobuf
	raw  rest.Interface       // JSON, for objects that are made here
}

func startPlane(ctx context.Context, dir string, at place) (*plane, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	c, err := child.Start(child.Spec{Name: verbPlane, Argv: []string{self, verbPlane, dir}, Log: filepath.Join(dir, verbPlane+".log"), Stdout: in, At: at.start})
	if err != nil {
		return nil, err
	}
	ready := make(chan bool, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		ready <- line == readyLine
		_, _ = io.Copy(io.Discard, out)
	}()
	p := &plane{Process: c, dir: dir}
	select {
	case <-ready:
		err = p.connect()
	case <-c.Done():
		err = c.Ended()
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(3 * time.Minute):
		err = errors.New("control plane: not ready after 3m")
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

// calm waits until the control plane has done what earlier runs left it to do: it uses little
// processor time for a while, beside heartbeats.
func (p *plane) calm(ctx context.Context) error {
	const little = 600 * time.Millisecond // in a second
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	last, calm := p.CPU(), 0
	for range 10 {
		select {
		case <-clock.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		now := p.CPU()
		if calm++; now-last > little {
			calm = 0
		}
		if last = now; calm == 2 {
			return nil
		}
	}
	return nil // the same for both
}

// metrics returns the API server's metrics.
func (p *plane) metrics(ctx context.Context) (metrics, error) {
	text, err := p.raw.Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("metrics of the API server: %w", err)
	}
	return parseMetrics(text), nil
}
