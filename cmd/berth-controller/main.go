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
			if err := guarded.Check(o.MetricsAuth); err != nil {
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
	f.StringVar(&o.Scheduler, "scheduler-name", "berth", "schedulerName of pods whose Job names none")
	f.StringSliceVar(&o.Schedulers, "scheduler-names", nil, "schedulerNames of the Jobs that are served, beside Jobs that name none (default: --scheduler-name and volcano)")
	f.StringVar(&lease, "volcano-lease", "volcano-system/vc-controller-manager", "Lease of Volcano's controller: while it is renewed, Jobs of the scheduler volcano are left to it")
	f.StringVar(&o.LeaderElection, "leader-elect-namespace", "", "namespace of the Lease of the leader; empty for no election")
	f.StringVar(&o.MetricsAddress, "metrics-address", "", "where metrics are served, as :8080; empty for nowhere")
	f.StringVar(&o.MetricsAuth, "metrics-auth", guarded.None, "who can read metrics: none: everyone, over plain HTTP; cluster: users whom the API server allows to get /metrics, over TLS")
	f.StringVar(&o.MetricsCerts, "metrics-cert-dir", "", "with --metrics-auth=cluster: folder with tls.crt and tls.key (default: a certificate that the controller signs itself)")
	f.StringVar(&o.HealthAddress, "health-address", "", "where /healthz and /readyz are served, as :8081; empty for nowhere")
	f.IntVar(&o.Workers, "workers", 4, "how many Jobs are worked on at a time, of one namespace at most half as many")
	f.StringVar(&kubeContext, "context", "", "context of the kubeconfig")
	return cmd
}
