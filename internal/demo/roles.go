package demo

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
)

// The verbs with which a program that uses this package starts itself as a child process; see Role.
const (
	// VerbNode runs a hollow node. The argument of VerbNode is the directory of the node.
	VerbNode = "node"
	// VerbAgent runs the agent of a hollow node. The arguments of VerbAgent are the node's
	// directory, a kubeconfig, and optionally the address for the agent's metrics.
	VerbAgent = "hollow-agent"
	// VerbKubeScheduler runs the stock kube-scheduler with its own arguments.
	VerbKubeScheduler = "scheduler-stock"
	// VerbBerthScheduler runs Berth's scheduler with the arguments of kube-scheduler.
	VerbBerthScheduler = "scheduler-berth"
)

var roles = map[string]func(args []string, stdin io.Reader, stderr io.Writer) int{
	VerbNode:           runNode,
	VerbAgent:          runAgent,
	VerbKubeScheduler:  runKubeScheduler,
	VerbBerthScheduler: runBerthScheduler,
}

// Role runs the role of a child process that args (without the program's name) select, and returns
// its exit code. ok is false if args select no role. The main function of a program that starts a
// Cluster must call it first.
func Role(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 || roles[args[0]] == nil {
		return 0, false
	}
	return roles[args[0]](args[1:], stdin, stderr), true
}

func runNode(args []string, stdin io.Reader, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "node: want the node's directory")
		return 2
	}
	return hollow.Main(hollow.Dir(args[0]), stdin, stderr)
}

func runAgent(args []string, stdin io.Reader, stderr io.Writer) int {
	if len(args) < 2 || len(args) > 3 {
		fmt.Fprintln(stderr, "agent: want the node's directory, a kubeconfig, and optionally an address for metrics")
		return 2
	}
	ctx, cancel := child.WithParent(context.Background(), stdin)
	defer cancel()
	if err := serveAgent(ctx, args, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func runKubeScheduler(args []string, stdin io.Reader, _ io.Writer) int {
	return RunScheduler(app.NewSchedulerCommand(), args, stdin)
}

func runBerthScheduler(args []string, stdin io.Reader, _ io.Writer) int {
	return RunScheduler(command.New(scheduler.New), args, stdin)
}

// RunScheduler runs the command of a kube-scheduler and returns its exit code. When stdin ends,
// because the parent process has ended, RunScheduler exits with code 0.
func RunScheduler(cmd *cobra.Command, args []string, stdin io.Reader) int {
	go func() {
		io.Copy(io.Discard, stdin)
		os.Exit(0) // kube-scheduler itself ends on signals only
	}()
	cmd.SetArgs(args)
	return cli.Run(cmd)
}
