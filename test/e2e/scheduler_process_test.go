package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"

	"github.com/berth-dev/berth/examples/licences"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler"
	ownscheduler "github.com/berth-dev/berth/scheduler"
	"github.com/berth-dev/berth/test/trial"
)

// schedulerVerb makes the test binary a berth-scheduler that ends only on signals, unlike the role
// of the demo. In its own process it can be killed, and has its own feature gates.
const schedulerVerb = "bare-berth-scheduler"

// licencesVerb does the same with the example's provider of licences.
const licencesVerb = "licences-berth-scheduler"

// otherScheduler is the program of a berth-scheduler of another Kubernetes release, for make
// e2e-versions. With "" tests use the linked one.
var otherScheduler = os.Getenv("BERTH_SCHEDULER")

// The verbs are handled before TestMain, which belongs to the hollow nodes.
func init() {
	if len(os.Args) < 2 {
		return
	}
	var command *cobra.Command
	switch verb := os.Args[1]; {
	case verb == schedulerVerb && otherScheduler != "":
		err := syscall.Exec(otherScheduler, append([]string{otherScheduler}, os.Args[2:]...), os.Environ())
		fmt.Fprintf(os.Stderr, "BERTH_SCHEDULER=%q: %v\n", otherScheduler, err)
		os.Exit(1)
	case verb == demo.VerbBerthScheduler && otherScheduler != "":
		os.Exit(runOtherScheduler(os.Args[2:]))
	case verb == schedulerVerb:
		command = ownscheduler.Command()
	case verb == licencesVerb:
		command = ownscheduler.Command(licences.PerSocket{Name: licence, Count: licencesOfSocket})
	default:
		return
	}
	os.Args = append(os.Args[:1], os.Args[2:]...)
	os.Exit(cli.Run(command))
}

// runOtherScheduler implements the role of the demo. It ends with its parent.
func runOtherScheduler(args []string) int {
	runtime.LockOSThread() // the kernel kills the child when this thread ends
	ctx, stop := child.WithParent(context.Background(), os.Stdin)
	defer stop()
	cmd := exec.CommandContext(ctx, otherScheduler, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "BERTH_SCHEDULER=%q: %v\n", otherScheduler, err)
	return 1
}

// schedulerProcess is a running berth-scheduler.
type schedulerProcess struct {
	*child.Process
	port int
}

// startSchedulerWith starts the scheduler of the verb.
func startSchedulerWith(t *testing.T, verb string, access *rest.Config, args *scheduler.Args) *schedulerProcess {
	t.Helper()
	s := trial.Scheduler{Dir: t.TempDir(), Name: "scheduler", Args: args}
	port, flags, err := s.Flags()
	if err := errors.Join(err, controlplane.WriteAccess(s.Access(), access)); err != nil {
		t.Fatal(err)
	}
	return runScheduler(t, verb, port, append(flags, "-v=2")...)
}

// runScheduler runs a berth-scheduler that listens on the port until the test's end.
func runScheduler(t *testing.T, verb string, port int, args ...string) *schedulerProcess {
	t.Helper()
	argv := append([]string{os.Args[0], verb}, args...)
	p, err := child.Start(child.Spec{Name: "berth-scheduler", Argv: argv, Log: filepath.Join(t.TempDir(), "log"), Foreign: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of the scheduler:\n%s", p.LogTail(6000))
		}
	})
	return &schedulerProcess{p, port}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
