package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/placement"
)

// The verbs with which this program starts itself, besides those of package demo.
const (
	// verbPlane runs the control plane; arguments: its directory, then the names of the nodes.
	verbPlane = "control-plane"
	// verbAgent runs an agent; arguments: a kubeconfig and the directory of its node.
	verbAgent = "agent"
)

// Files in the control plane's directory.
const (
	adminConfig     = "admin.kubeconfig"
	schedulerConfig = "scheduler.kubeconfig"
	readyFile       = "ready"
)

func nodeConfig(name string) string { return name + ".kubeconfig" }

// role plays the child's role that args ask for; ok is false when they ask for none.
func role(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool) {
	if len(args) < 3 || args[0] != verbPlane && args[0] != verbAgent {
		return 0, false
	}
	ctx, cancel := hollow.WithParent(context.Background(), stdin)
	defer cancel()
	var err error
	if args[0] == verbPlane {
		err = servePlane(ctx, args[1], args[2:], stderr)
	} else {
		err = serveAgent(ctx, args[1], hollow.Dir(args[2]), stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1, true
	}
	return 0, true
}

// servePlane runs a control plane with Berth's manifests, and writes a file when it is ready.
func servePlane(ctx context.Context, dir string, nodes []string, log io.Writer) (err error) {
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	if err := cp.Apply(ctx, deploy.Manifests()...); err != nil {
		return err
	}
	type user struct {
		file, name string
		groups     []string
	}
	users := []user{{adminConfig, "chaos", []string{"system:masters"}}, {schedulerConfig, "system:kube-scheduler", nil}}
	for _, n := range nodes {
		users = append(users, user{nodeConfig(n), "system:node:" + n, []string{"system:nodes"}})
	}
	for _, u := range users {
		data, err := cp.Kubeconfig(u.name, u.groups)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, u.file), data, 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, readyFile), nil, 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// serveAgent runs the agent of a hollow node.
func serveAgent(ctx context.Context, kubeconfig string, dir hollow.Dir, log io.Writer) error {
	spec, err := dir.ReadSpec()
	if err != nil {
		return err
	}
	client, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client.QPS = -1
	return agent.Run(ctx, agent.Options{
		Node: spec.Name, Client: client, Root: dir.Root(), Machine: spec.Machine, Preferences: map[string]placement.Preference{gpuResource: placement.SortedPreference},
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}
