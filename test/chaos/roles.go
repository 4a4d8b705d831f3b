package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/podgroup"
	"github.com/berth-dev/berth/test/standalone"
	"github.com/berth-dev/berth/test/tenant"
	"github.com/berth-dev/berth/test/wrongclock"
)

// The verbs with which this program starts itself. Packages demo and wrongclock have more.
const (
	// verbStorage runs etcd; arguments: the control plane's directory, and the file to which it
	// writes its URL.
	verbStorage = "etcd"
	// verbAPIServer runs an API server; arguments: the cluster's directory, the control plane's,
	// the URL of etcd, then the names of the nodes.
	verbAPIServer = "apiserver"
	// verbAgent runs an agent; arguments: a kubeconfig, the directory of its node, and the file
	// that its clock follows.
	verbAgent = "agent"
)

// Files in the cluster's directory.
const (
	adminConfig     = "admin.kubeconfig"
	schedulerConfig = "scheduler.kubeconfig"
	tenantConfig    = "tenant.kubeconfig"
	storageURLFile  = "etcd.url"
)

// The tenant's quota is small, so that other pods still find room.
const tenantCPUs, tenantPods = 3, 12

func nodeConfig(name string) string { return name + ".kubeconfig" }

// role runs this process as the child that args name. ok is false if they name none.
func role(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool) {
	roles := map[string]struct {
		args int // minimum number of arguments
		do   func(ctx context.Context, args []string, log io.Writer) error
	}{verbStorage: {2, serveStorage}, verbAPIServer: {3, serveAPIServer}, verbAgent: {3, serveAgent}}
	if len(args) == 0 || roles[args[0]].do == nil || len(args) <= roles[args[0]].args {
		return 0, false
	}
	ctx, cancel := child.WithParent(context.Background(), stdin)
	defer cancel()
	if err := roles[args[0]].do(ctx, args[1:], stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return 1, true
	}
	return 0, true
}

// serveStorage runs etcd on existing data and prints its address.
func serveStorage(ctx context.Context, args []string, log io.Writer) error {
	dir, file := args[0], args[1]
	e, err := controlplane.StartEtcd(ctx, dir, log)
	if err != nil {
		return err
	}
	defer e.Stop()
	if err := writeWhole(file, []byte(e.URL())); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// writeWhole writes a file for which other processes wait.
func writeWhole(file string, data []byte) error {
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// serveAPIServer runs an API server with Berth's manifests, and writes the credentials of all
// clients.
func serveAPIServer(ctx context.Context, args []string, log io.Writer) error {
	shadow, err := fs.ReadFile(deploy.Folder("shadow"), "rbac.yaml")
	if err != nil {
		return err
	}
	s := standalone.Service{
		Options: controlplane.Options{Keep: args[1], Etcd: args[2], Log: log}, Out: args[0], Manifests: slices.Concat(deploy.Manifests(), podgroup.Manifests(), [][]byte{shadow, tenant.Manifests(tenantCPUs, tenantPods)}),
		Users: map[string]controlplane.User{adminConfig: controlplane.Admin, schedulerConfig: controlplane.Scheduler, tenantConfig: {Name: tenant.User}},
	}
	for _, n := range args[3:] {
		s.Users[nodeConfig(n)] = controlplane.Kubelet(n)
	}
	return s.Serve(ctx)
}

// serveAgent runs the agent of a hollow node.
func serveAgent(ctx context.Context, args []string, log io.Writer) error {
	kubeconfig, dir, wrong := args[0], hollow.Dir(args[1]), wrongclock.Follow(args[2])
	spec, err := dir.ReadSpec()
	if err != nil {
		return err
	}
	client, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client.QPS = -1
	options := agent.Options{
		Node: spec.Name, Client: client, Root: dir.Root(), Machine: spec.Machine, Preferences: map[string]placement.Preference{gpuResource: placement.SortedPreference},
		Now: wrong.Now, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if spec.NRI {
		options.Authority = v1alpha1.AuthorityBerth
		options.Enforce = agent.EnforceOptions{NRISocket: dir.NRI(), Cgroups: dir.Cgroups()}
	}
	return agent.Run(ctx, options)
}
