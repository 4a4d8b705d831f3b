package e2e

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/component-base/cli"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
)

// schedulerVerb makes the test binary a berth-scheduler that ends on signals only, unlike the role
// of the demo. In a process of its own it can be killed, and its feature gates are its own.
const schedulerVerb = "bare-berth-scheduler"

// The verb is looked for before TestMain, which belongs to the hollow nodes.
func init() {
	if len(os.Args) > 1 && os.Args[1] == schedulerVerb {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		os.Exit(cli.Run(command.New(scheduler.New)))
	}
}

// schedulerProcess is a berth-scheduler that runs.
type schedulerProcess struct {
	cmd  *exec.Cmd
	log  string
	port int
}

// startScheduler starts a berth-scheduler for the control plane; the test's end stops it.
func startScheduler(t *testing.T, cp *controlplane.ControlPlane, args *scheduler.Args) *schedulerProcess {
	t.Helper()
	kubeconfig, err := cp.Kubeconfig("berth-scheduler", []string{"system:masters"})
	if err != nil {
		t.Fatal(err)
	}
	return startSchedulerWith(t, kubeconfig, args)
}

func startSchedulerWith(t *testing.T, kubeconfig []byte, args *scheduler.Args) *schedulerProcess {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "kubeconfig"), kubeconfig)
	config, err := scheduler.Configuration(scheduler.ConfigOptions{Kubeconfig: filepath.Join(dir, "kubeconfig"), Args: args})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.yaml"), config)
	p := &schedulerProcess{log: filepath.Join(dir, "log"), port: freePort(t)}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(os.Args[0], schedulerVerb, "--config="+filepath.Join(dir, "config.yaml"),
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(p.port), "--cert-dir="+dir,
		"--authorization-always-allow-paths=/metrics,/healthz,/readyz", "-v=2")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text, _ := os.ReadFile(p.log)
			t.Logf("log of the scheduler:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return p
}

// kill ends the process at once, as a crash would.
func (p *schedulerProcess) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Ports that Linux does not give to clients by itself (ip_local_port_range begins at 32768, ip(7)),
// so that none takes a port before the scheduler listens.
const firstPort, endPort = 20000, 32768

// lastPort is the last one that was given away; test binaries beside each other begin at different
// ones.
var lastPort atomic.Uint32

func init() { lastPort.Store(rand.Uint32N(endPort - firstPort)) }

// freePort returns a port that nobody listens on, and never the same one twice.
func freePort(t *testing.T) int {
	t.Helper()
	for range endPort - firstPort {
		port := int(firstPort + lastPort.Add(1)%(endPort-firstPort))
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// startBerthControlPlane starts a control plane that knows Berth's kinds.
func startBerthControlPlane(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	begun := time.Now()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	crds, err := readAll(deploy.CRDs())
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.InstallCRDs(t.Context(), crds...); err != nil {
		t.Fatal(err)
	}
	t.Logf("control plane ready after %v", time.Since(begun).Round(10*time.Millisecond))
	return cp
}

func readAll(files fs.FS) (out [][]byte, err error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("manifests: %v, %w", names, err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}
