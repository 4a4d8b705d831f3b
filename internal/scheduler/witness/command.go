package witness

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/version"
)

// Verb is the subcommand of berth-scheduler for shadow mode.
const Verb = "shadow"

// gcPercent is the value of GOGC if the environment does not set it. It is high because reports are
// many small objects, which every garbage collection scans.
const gcPercent = 300

// NewCommand returns the command line of shadow mode.
func NewCommand() *cobra.Command {
	var kubeconfig, listen string
	var o Options
	cmd := &cobra.Command{
		Use:   Verb,
		Short: "Watch what other schedulers do, predict each kubelet's answer, and judge the predictions",
		Long: `berth-scheduler shadow places nothing and writes nothing. For every pod that any scheduler binds to a node with an agent,
it predicts the kubelet's answer before the kubelet gives it, and counts the correct predictions. berth shadow shows the result.`,
		Version:      version.Text(),
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.StaleAfter < time.Second:
				return fmt.Errorf("--stale-after %s: want at least 1s", o.StaleAfter)
			case o.SettleAfter < 0:
				return fmt.Errorf("--settle-after %s: want a duration that is not negative", o.SettleAfter)
			case o.Share < 0 || o.Share > 1:
				return fmt.Errorf("--elsewhere-cpu %v: want a fraction of a CPU, from 0 to 1", o.Share)
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("--kubeconfig %q: %w", kubeconfig, err)
			}
			o.Client, o.Logger = config, klog.Background()
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			if os.Getenv("GOMAXPROCS") == "" {
				runtime.GOMAXPROCS(1) // waking other threads costs a third of all CPU time
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
			if err != nil {
				return fmt.Errorf("--listen %s: %w", listen, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Watching %s; the results are at http://%s/shadow\n", config.Host, listener.Addr())
			return New(o).Serve(ctx, listener)
		},
	}
	f, logs := cmd.Flags(), flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(logs)
	f.AddGoFlag(logs.Lookup("v"))
	// Packages of Kubernetes declare a flag --version for all commands of a program. This flag
	// replaces it.
	f.Bool("version", false, "version of berth-scheduler")
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; none: the service account of the pod")
	f.StringVar(&listen, "listen", "127.0.0.1:10261", "address and port for results, captures, metrics and health; with port 0, the system chooses a free port")
	f.StringVar(&o.Heartbeats, "heartbeat-namespace", v1alpha1.HeartbeatNamespace, "namespace of the agents' Leases")
	f.DurationVar(&o.StaleAfter, "stale-after", time.Minute, "how long an agent may be silent, and by how much its clock may differ from this program's clock")
	f.DurationVar(&o.SettleAfter, "settle-after", 5*time.Second, "time after which a pod that has left the API counts as released by the kubelet, if the report does not list it")
	f.Float64Var(&o.Share, "elsewhere-cpu", 0.05, "fraction of a CPU that the search for better nodes may use")
	return cmd
}
