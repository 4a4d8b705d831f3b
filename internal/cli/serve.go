package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/web"
)

// defaultListen is where the map is served unless somebody says otherwise.
const defaultListen = "127.0.0.1:8270"

// serveFlags say where the map is served.
type serveFlags struct {
	listen string
	hosts  []string
}

// NewServeCommand returns the verb that serves the map.
func NewServeCommand() *cobra.Command {
	var live clusterFlags
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the map: a page that shows every node, NUMA node and pod of a cluster, live",
		Long: `Serve a page on this machine that shows the cluster: what every NUMA node has left, who sits on which CPUs, memory and
devices of a node, why a pod is where it is or nowhere, and what waits. It reads with your own rights, writes nothing, and
follows the cluster until interrupted. With --snapshot it shows a file that berth snapshot wrote.`,
		Example: `  kubectl berth serve
  kubectl berth serve --context training --listen 127.0.0.1:9000
  berth serve --snapshot cluster.berth`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			c, err := live.connect()
			if err != nil {
				return err
			}
			return f.serve(cmd, c.NewLive())
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", defaultListen, "address and port to serve on; port 0 takes a free one")
	cmd.Flags().StringArrayVar(&f.hosts, "host", nil, "a name by which browsers may call the page, beside localhost; may be repeated")
	live.register(cmd)
	return cmd
}

// check refuses addresses that others can reach: whoever does would see what the user may see.
func (f *serveFlags) check() error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return Usagef("--listen %q: want ADDRESS:PORT, like %s", f.listen, defaultListen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return Usagef("--listen %q: everybody who reaches it would see what you may see: want an address of this machine alone, like %s", f.listen, defaultListen)
	}
	return nil
}

// serve serves until interrupted.
func (f *serveFlags) serve(cmd *cobra.Command, l *survey.Live) error {
	listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w (port 0 takes a free one)", f.listen, err)
	}
	server := web.New(web.Options{Live: l, Hosts: f.names(listener)})
	fmt.Fprintf(cmd.OutOrStdout(), "The map of %s is at http://%s/\n", l.Where(), listener.Addr())
	group, ctx := errgroup.WithContext(cmd.Context())
	group.Go(func() error { return l.Run(ctx, server.Changed) })
	group.Go(func() error {
		server.Run(ctx)
		return nil
	})
	group.Go(func() error { return serveUntil(ctx, listener, server) })
	return group.Wait()
}

// names are those by which browsers call a server on this machine.
func (f *serveFlags) names(l net.Listener) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(l.Addr().String()); err == nil && !slices.Contains(names, host) {
		names = append(names, host)
	}
	for _, h := range f.hosts {
		names = append(names, strings.ToLower(h))
	}
	return names
}

// How a server treats browsers that are slow.
const (
	headerPatience = 10 * time.Second
	idlePatience   = 2 * time.Minute
	stopPatience   = 2 * time.Second
)

// serveUntil serves until ctx ends; streams that are open then are cut.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if err := server.Shutdown(late); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close()
}
