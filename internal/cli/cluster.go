package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // all authentication plugins of kubeconfigs
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// clusterFlags select the cluster that a verb reads, with kubectl's flags. They also have those
// settings of the scheduler that affect the verb's answers.
type clusterFlags struct {
	config     *genericclioptions.ConfigFlags
	heartbeats string
	staleAfter time.Duration
	terms      wire.Terms
	snapshot   string
}

// rareFlags are flags of kubectl that berth accepts but hides in the help.
var rareFlags = []string{
	"as", "as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate", "client-key",
	"disable-compression", "insecure-skip-tls-verify", "proxy-url", "server", "tls-server-name", "token",
}

// schedulerFlags repeat arguments of the scheduler. ownFlags are all of Berth's flags of a cluster.
// Verbs refuse those that would have no effect.
var (
	schedulerFlags = []string{"stale-after", "exclusive-namespaces", "keep", "cpus-per-device", "best-effort-anywhere", "claims", "numa-attributes"}
	ownFlags       = append([]string{"snapshot", "heartbeat-namespace"}, schedulerFlags...)
)

func (f *clusterFlags) register(cmd *cobra.Command) {
	under(clusterHeading, cmd, func() { f.add(cmd) })
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.config = genericclioptions.NewConfigFlags(true)
	f.config.AddFlags(fs)
	for _, name := range rareFlags {
		if fs.Lookup(name) != nil {
			_ = fs.MarkHidden(name)
		}
	}
	_ = cmd.RegisterFlagCompletionFunc("namespace", f.completeNames((*survey.Cluster).NamespaceNames))
	_ = cmd.RegisterFlagCompletionFunc("context", f.completeContexts)
	fs.StringVar(&f.heartbeats, "heartbeat-namespace", v1alpha1.HeartbeatNamespace, "namespace of the agents' Leases")
	fs.StringVar(&f.snapshot, "snapshot", "", "read a file that berth snapshot wrote, in place of a cluster")
	fs.DurationVar(&f.staleAfter, "stale-after", time.Minute, "how long an agent may be silent, as in the scheduler's argument staleAfter")
	fs.StringSliceVar((*[]string)(&f.terms.ExclusiveNamespaces), "exclusive-namespaces", nil, "namespaces whose pods may keep CPUs idle that they do not ask for, as in the scheduler's argument exclusiveNamespaces; * is all")
	fs.StringVar(&f.terms.Keep, "keep", "", "CPUs that are kept for pods with devices, as in the scheduler's argument keep: "+wire.CPUsNearDevices)
	fs.StringToIntVar(&f.terms.CPUsPerDevice, "cpus-per-device", nil, "how many CPUs are kept for a device, by resource, as in the scheduler's argument cpusPerDevice")
	fs.BoolVar(&f.terms.BestEffortAnywhere, "best-effort-anywhere", false, "let pods with Volcano's policy best-effort go to nodes of any policy, as in the scheduler's argument bestEffortAnywhere")
	fs.StringVar(&f.terms.Claims, "claims", "", "near or required: the default for pods with claims and without berth.dev/claims, as in the scheduler's argument claims")
	fs.StringSliceVar(&f.terms.NUMAAttributes, "numa-attributes", nil, "attributes of devices with the number of a NUMA node, as in the scheduler's argument numaAttributes")
}

// connect returns the cluster that the flags select. It sends no requests yet.
func (f *clusterFlags) connect() (*survey.Cluster, error) {
	if t := &f.terms; f.snapshot != "" && (t.Keep != "" || len(t.CPUsPerDevice) > 0 || len(t.ExclusiveNamespaces) > 0 || t.BestEffortAnywhere || t.Claims != "" || len(t.NUMAAttributes) > 0 || f.staleAfter != time.Minute) {
		return nil, Usagef("--snapshot: want none of --keep, --cpus-per-device, --exclusive-namespaces, --best-effort-anywhere, --claims, --numa-attributes and --stale-after, because the file has the scheduler's configuration")
	}
	if f.snapshot != "" {
		return openSnapshot(f.snapshot, cmp.Or(*f.config.Namespace, metav1.NamespaceDefault))
	}
	if f.staleAfter <= 0 {
		return nil, Usagef("--stale-after %v: want more than 0, like 1m", f.staleAfter)
	}
	if err := f.terms.Check(); err != nil {
		return nil, flagged(err)
	}
	config, err := f.restConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := f.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.tried(), err)
	}
	return survey.Connect(source.Options{
		Config: config, Namespace: namespace, Heartbeats: f.heartbeats, StaleAfter: f.staleAfter, Terms: f.terms,
		Where: config.Host + " (" + f.tried() + ")",
	})
}

// termFlags maps arguments of the scheduler to the flags that set them.
var termFlags = map[string]string{"keep": "keep", "cpusPerDevice": "cpus-per-device", "exclusiveNamespaces": "exclusive-namespaces", "claims": "claims", "numaAttributes": "numa-attributes"}

// flagged replaces the name of the scheduler's argument in an error with the name of the flag.
func flagged(err error) error {
	if wrong := new(wire.TermError); errors.As(err, &wrong) {
		return Usagef("--%s: %s", termFlags[wrong.Field], wrong.Why)
	}
	return err
}

// restConfig is like ToRESTConfig, but does not assume localhost:8080 if nothing is configured.
func (f *clusterFlags) restConfig() (*rest.Config, error) {
	raw, err := f.config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.tried(), err)
	}
	inCluster := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	if len(raw.Clusters) == 0 && *f.config.APIServer == "" && !inCluster {
		return nil, fmt.Errorf("no cluster to ask: none is configured in %s (set KUBECONFIG, or use --kubeconfig)", f.tried())
	}
	config, err := f.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.tried(), err)
	}
	return config, nil
}

// tried returns the names of the kubeconfig files that are read according to kubectl's rules.
func (f *clusterFlags) tried() string {
	access := f.config.ToRawKubeConfigLoader().ConfigAccess()
	if access.IsExplicitFile() {
		return "kubeconfig " + access.GetExplicitFile()
	}
	files := access.GetLoadingPrecedence()
	if len(files) == 0 {
		files = []string{clientcmd.RecommendedHomeFile}
	}
	return "kubeconfig " + strings.Join(files, string(filepath.ListSeparator))
}

// completer suggests values for an argument or a flag.
type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeNames suggests names of objects in the cluster.
func (f *clusterFlags) completeNames(names func(*survey.Cluster, context.Context) ([]string, error)) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := f.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		out, err := names(c, cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

func (f *clusterFlags) completePods(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.completeNames((*survey.Cluster).PodNames)(cmd, args, typed)
}

// completeSubject suggests names of pods or, after a word of gangKinds, names of gangs.
func (f *clusterFlags) completeSubject(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return f.completePods(cmd, args, typed)
	}
	if source, ok := gangKinds[strings.ToLower(args[0])]; ok {
		return f.completeNames(func(c *survey.Cluster, ctx context.Context) ([]string, error) { return c.GangNames(ctx, source) })(cmd, args, typed)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (f *clusterFlags) completeNodes(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return f.completeNames((*survey.Cluster).NodeNames)(cmd, args, typed)
}

func (f *clusterFlags) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	raw, err := f.config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(raw.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
