package cli

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/web"
)

// defaultListen is the default address on which the map, which is Berth's web page, is served.
const defaultListen = "127.0.0.1:8270"

// serveFlags are the address of the map, the accepted host names, the authentication, and the
// source of shadow mode's findings.
type serveFlags struct {
	listen string
	hosts  []string
	auth   string
	shadow string
}

// ofService is the value of --shadow that selects the Service of shadow mode.
const ofService = "service"

// The values of --auth.
const (
	authNone    = "none"
	authCluster = "cluster"
)

// NewServeCommand returns the verb that serves the map.
func NewServeCommand() *cobra.Command {
	var live clusterFlags
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the map: a page that shows every node, NUMA node and pod of a cluster, live",
		Long: `Serves a page on this machine that shows the cluster: the free resources of every NUMA node, the CPUs, memory and
devices of each pod, and why a pod is on its node or has none. It reads with your permissions, writes nothing, and
follows the cluster until Ctrl-C. With --snapshot it shows a file of berth snapshot.`,
		Example: `  kubectl berth serve
  kubectl berth serve --context training --listen 127.0.0.1:9000
  berth serve --snapshot cluster.berth`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			c, err := live.connect()
			if err != nil {
				return err
			}
			return f.serve(cmd, c)
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", defaultListen, "address and port to serve on; with port 0, the system chooses a free port")
	cmd.Flags().StringArrayVar(&f.hosts, "host", nil, "a host name, besides localhost, that browsers may use for the page; may be repeated")
	cmd.Flags().StringVar(&f.auth, "auth", authNone, "none: every user of this machine sees everything that you may see; cluster: the page asks for a token, and shows what the token's user may see")
	_ = cmd.RegisterFlagCompletionFunc("auth", cobra.FixedCompletions([]string{authNone, authCluster}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&f.shadow, "shadow", "", "show what shadow mode has found: "+ofService+" asks its Service through the API server; an address like http://127.0.0.1:10261 is asked directly")
	live.register(cmd)
	return cmd
}

// check returns an error for an invalid flag. Without authentication, the address must be a
// loopback address, because any caller can then see everything that the user may see.
func (f *serveFlags) check() error {
	if f.auth != authNone && f.auth != authCluster {
		return Usagef("--auth %q: want %s or %s", f.auth, authNone, authCluster)
	}
	if f.shadow != ofService {
		if err := source.CheckShadowURL(f.shadow); err != nil {
			return Usagef("--shadow %w, or %s", err, ofService)
		}
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return Usagef("--listen %q: want ADDRESS:PORT, like %s", f.listen, defaultListen)
	}
	if ip := net.ParseIP(host); f.auth == authNone && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return Usagef("--listen %q: every client that can reach this address would see what you may see: want a loopback address, like %s, or --auth cluster", f.listen, defaultListen)
	}
	return nil
}

func (f *serveFlags) serve(cmd *cobra.Command, c *survey.Cluster) error {
	options := web.Options{Live: c.NewLive()}
	if f.auth == authCluster {
		if c.Config == nil {
			return Usagef("--auth %s: a snapshot has no API server to ask: want --auth %s", authCluster, authNone)
		}
		var err error
		if options.Gate, err = web.Reviews(c.Config); err != nil {
			return err
		}
	}
	if f.shadow != "" {
		at := source.Shadow{URL: f.shadow, Config: c.Config, Namespace: c.Heartbeats}
		if f.shadow == ofService {
			if at.URL = ""; c.Config == nil {
				return Usagef("--shadow %s: a snapshot has no API server: want an address like http://127.0.0.1:10261", ofService)
			}
		}
		options.Shadow = func(ctx context.Context) ([]byte, error) { return at.Ask(ctx, "shadow") }
	}
	listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w (with port 0, the system chooses a free port)", f.listen, err)
	}
	if f.auth == authNone {
		options.Hosts = append(web.LocalNames(listener), f.hosts...)
	}
	ctx, stop := context.WithCancel(cmd.Context())
	said := make(chan struct{})
	go func() {
		defer close(said)
		select {
		case <-options.Live.Ready(): // the cluster was reached
			fmt.Fprintf(cmd.OutOrStdout(), "The map of %s is at http://%s/\n", c.Where, listener.Addr())
		case <-ctx.Done():
		}
	}()
	err = web.New(options).Serve(ctx, listener)
	stop()
	<-said
	return err
}
