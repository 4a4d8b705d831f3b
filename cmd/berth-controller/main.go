// Command berth-controller runs Jobs of batch.volcano.sh: it creates their pods and PodGroups and
// applies their lifecycle policies.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/berth-dev/berth/internal/guarded"
	"github.com/berth-dev/berth/internal/jobs"
	"github.com/berth-dev/berth/internal/version"
)

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "berth-controller:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var o jobs.Options
	var lease, kubeContext string
	cmd := &cobra.Command{
		Use:           "berth-controller",
		Short:         "Run Jobs of batch.volcano.sh",
		Version:       version.Text(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := guarded.Check(o.MetricsAuth, o.MetricsCerts); err != nil {
				return err
			}
			namespace, name, ok := strings.Cut(lease, "/")
			if !ok || namespace == "" || name == "" {
				return fmt.Errorf("--volcano-lease %q: want NAMESPACE/NAME", lease)
			}
			o.VolcanoLease = types.NamespacedName{Namespace: namespace, Name: name}
			ctrl.SetLogger(klog.Background())
			rest, err := config.GetConfigWithContext(kubeContext)
			if err != nil {
				return err
			}
			return jobs.Run(cmd.Context(), rest, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Scheduler, "scheduler-name", "berth", "schedulerName of pods whose Job has none")
	f.StringSliceVar(&o.Schedulers, "scheduler-names", nil, "schedulerNames of the Jobs to run, in addition to Jobs without a schedulerName (default: --scheduler-name and volcano)")
	f.StringVar(&lease, "volcano-lease", "volcano-system/vc-controller-manager", "Lease of Volcano's controller; while Volcano's controller renews it, Jobs with schedulerName volcano are left to that controller")
	f.StringVar(&o.LeaderElection, "leader-elect-namespace", "", "namespace of the Lease for leader election; empty: no election")
	f.StringVar(&o.MetricsAddress, "metrics-address", "", "address for metrics, like :8080; empty: none")
	f.StringVar(&o.MetricsAuth, "metrics-auth", guarded.None, "who can read metrics: none (everyone, over plain HTTP) or cluster (over TLS, users whom the API server allows to get /metrics)")
	f.StringVar(&o.MetricsCerts, "metrics-cert-dir", "", "with --metrics-auth=cluster: folder with tls.crt and tls.key (default: a certificate that the controller signs itself)")
	f.StringVar(&o.HealthAddress, "health-address", "", "address for /healthz and /readyz, like :8081; empty: none")
	f.IntVar(&o.Workers, "workers", 4, "number of Jobs that are reconciled at the same time; at most half of them are of one namespace")
	f.StringVar(&kubeContext, "context", "", "context of the kubeconfig")
	return cmd
}
