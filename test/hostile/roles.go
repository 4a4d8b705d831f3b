package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/go-logr/logr"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/jobs"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/command"
	"github.com/berth-dev/berth/test/wrongclock"
)

// The verbs with which this program starts itself. Package demo has more. The first argument of
// each is the base of its files. On SIGUSR1 it searches its memory for the names and UIDs in the
// lines of BASE.marks, and writes the finds to BASE.remembered.
const (
	// verbScheduler runs a replica of the scheduler; arguments: the file that controls its clock,
	// then the arguments of kube-scheduler.
	verbScheduler = "scheduler"
	// verbAgent runs an agent; arguments: a kubeconfig and the directory of its node.
	verbAgent = "agent"
	// verbController runs berth-controller; argument: a kubeconfig.
	verbController = "controller"
)

// role runs this process as the child that args name. ok is false if they name none.
func role(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool) {
	if len(args) < 3 {
		return 0, false
	}
	switch base, rest := args[1], args[2:]; args[0] {
	case verbScheduler:
		return runScheduler(base, rest[0], rest[1:], stdin), true
	case verbAgent, verbController:
		ctx, cancel := child.WithParent(context.Background(), stdin)
		defer cancel()
		go answer(base, func() any { return nil })
		serve := map[string]func(context.Context, []string, io.Writer) error{verbAgent: serveAgent, verbController: serveController}[args[0]]
		if err := serve(ctx, rest, stderr); err != nil && ctx.Err() == nil {
			fmt.Fprintln(stderr, err)
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// runScheduler runs berth-scheduler with a clock that may be wrong, and keeps its plugin for the
// search.
func runScheduler(base, clock string, args []string, stdin io.Reader) int {
	make := scheduler.With(scheduler.Options{Clock: wrongclock.Follow(clock)})
	var plugin atomic.Value
	go answer(base, plugin.Load)
	return demo.RunScheduler(command.New(func(ctx context.Context, args kruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		made, err := make(ctx, args, handle)
		if err == nil {
			plugin.Store(made)
		}
		return made, err
	}), args, stdin)
}

// serveAgent runs the agent of a hollow node.
func serveAgent(ctx context.Context, args []string, log io.Writer) error {
	kubeconfig, dir := args[0], hollow.Dir(args[1])
	spec, err := dir.ReadSpec()
	if err != nil {
		return err
	}
	client, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	o := agent.Options{Node: spec.Name, Client: client, Root: dir.Root(), Machine: spec.Machine, Log: slog.New(slog.NewTextHandler(log, nil))}
	if spec.NRI {
		o.Authority = v1alpha1.AuthorityBerth
		o.Enforce = agent.EnforceOptions{NRISocket: dir.NRI(), Cgroups: dir.Cgroups()}
		o.SpecDirs = []string{dir.CDI()}
	}
	return agent.Run(ctx, o)
}

func serveController(ctx context.Context, args []string, log io.Writer) error {
	client, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return err
	}
	return jobs.Run(ctx, client, jobs.Options{Scheduler: "default-scheduler", Schedulers: []string{"default-scheduler", "volcano"},
		Log: logr.FromSlogHandler(slog.NewTextHandler(log, nil))})
}

// remembered is a process's answer about its memory.
type remembered struct {
	// Places has the paths of fields at which a mark was found, with the number of finds.
	Places map[string]int
	// Heap is how much of the heap is in use after a collection, in bytes.
	Heap uint64
}

// answer searches the memory of this process from root on each SIGUSR1, and writes the result.
func answer(base string, root func() any) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		out := remembered{Places: map[string]int{}}
		if marks, err := os.ReadFile(base + ".marks"); err == nil {
			out.Places = find(root(), strings.Fields(string(marks)))
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		out.Heap = m.HeapAlloc
		if text, err := json.Marshal(out); err == nil && os.WriteFile(base+".new", text, 0o600) == nil {
			_ = os.Rename(base+".new", base+".remembered")
		}
	}
}
