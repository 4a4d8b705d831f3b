package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // whatever a kubeconfig may ask for
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// ErrNotInstalled says that the cluster does not know the kind NodeTopology.
var ErrNotInstalled = errors.New("this cluster has no nodetopologies.berth.dev: Berth's agent is not installed there (see docs/install.md)")

// liveFlags say which cluster a verb reads, in kubectl's words, and what counts as silence.
type liveFlags struct {
	config     *genericclioptions.ConfigFlags
	heartbeats string
	staleAfter time.Duration
}

// rareFlags of kubectl work here too, but are left out of the help.
var rareFlags = []string{"as", "as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate", "client-key",
	"disable-compression", "insecure-skip-tls-verify", "server", "tls-server-name", "token"}

func (f *liveFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.config = genericclioptions.NewConfigFlags(true)
	f.config.AddFlags(fs)
	for _, name := range rareFlags {
		if fs.Lookup(name) != nil {
			_ = fs.MarkHidden(name)
		}
	}
	fs.StringVar(&f.heartbeats, "heartbeat-namespace", v1alpha1.HeartbeatNamespace, "namespace of the agents' Leases")
	fs.DurationVar(&f.staleAfter, "stale-after", time.Minute, "how long an agent may be silent, as the scheduler is configured (staleAfter)")
}

// cluster reads what the live verbs need; it never writes.
type cluster struct {
	core   coreclient.CoreV1Interface
	leases coordinationclient.CoordinationV1Interface
	// reports knows the group berth.dev.
	reports    rest.Interface
	clock      *serverClock
	heartbeats string
	staleAfter time.Duration
	// namespace is the one of -n or of the context.
	namespace string
	// where names server and kubeconfig, for errors.
	where string
}

// The client's own limits; the API server has its own.
const (
	clientQPS   = 50
	clientBurst = 100
)

// connect makes a cluster of the flags. It speaks to nobody yet.
func (f *liveFlags) connect() (*cluster, error) {
	config, err := f.restConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := f.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.tried(), err)
	}
	c := &cluster{clock: new(serverClock), heartbeats: f.heartbeats, staleAfter: f.staleAfter, namespace: namespace, where: config.Host + " (" + f.tried() + ")"}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.Wrap(c.clock.listen)
	if c.reports, err = reportClient(config); err != nil {
		return nil, err
	}
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON // a list of pods is read in a fraction of the time
	if c.core, err = coreclient.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.leases, err = coordinationclient.NewForConfig(config); err != nil {
		return nil, err
	}
	return c, nil
}

// reportClient returns a client for NodeTopologies.
func reportClient(config *rest.Config) (rest.Interface, error) {
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(known, v1alpha1.GroupVersion)
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/apis", &v1alpha1.GroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	return rest.RESTClientFor(c)
}

// restConfig is ToRESTConfig without its guess of localhost:8080 where nothing is configured.
func (f *liveFlags) restConfig() (*rest.Config, error) {
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

// tried names the kubeconfig files that count.
func (f *liveFlags) tried() string {
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

// failed says what could not be read, and what to do where that is known.
func (c *cluster) failed(what string, err error) error {
	var unreachable *url.Error
	switch {
	case errors.As(err, &unreachable):
		return fmt.Errorf("cannot reach the cluster at %s: %w", c.where, unreachable.Err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster at %s does not know who asks: %w", c.where, err)
	}
	return fmt.Errorf("reading %s: %w", what, err)
}

// pageSize is how many objects a list asks for at a time.
const pageSize = 500

// pages reads a list page by page. Where the next page is no longer to be had, it reads all at once.
func pages[T any](list func(metav1.ListOptions) ([]T, string, error), opts metav1.ListOptions) ([]T, error) {
	var read [][]T // joined at the end: pods are large
	opts.Limit = pageSize
	for {
		items, next, err := list(opts)
		if apierrors.IsResourceExpired(err) && opts.Continue != "" {
			opts.Limit, opts.Continue = 0, ""
			all, _, err := list(opts)
			return all, err
		}
		if err != nil {
			return nil, err
		}
		read = append(read, items)
		if next == "" {
			return slices.Concat(read...), nil
		}
		opts.Continue = next
	}
}

// serverClock tells the API server's time, which is what the times in managedFields are measured by.
type serverClock struct{ seconds atomic.Int64 }

// now is the time of the last answer; that of this machine before the first.
func (c *serverClock) now() time.Time {
	if s := c.seconds.Load(); s != 0 {
		return time.Unix(s, 0)
	}
	return time.Now()
}

func (c *serverClock) listen(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			if date, dateErr := http.ParseTime(answer.Header.Get("Date")); dateErr == nil {
				c.seconds.Store(date.Unix())
			}
		}
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// written is when the API server last took in a change of the object: the newest time of its managed fields, or else.
func written(o *metav1.ObjectMeta, or time.Time) time.Time {
	var newest time.Time
	for i := range o.ManagedFields {
		if t := o.ManagedFields[i].Time; t != nil && t.After(newest) {
			newest = t.Time
		}
	}
	if newest.IsZero() {
		return or
	}
	return newest
}

// completePods completes the name of a pod.
func (f *liveFlags) completePods(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := f.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	pods, err := c.podsIn(cmd.Context(), c.namespace, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return namesOf(pods), cobra.ShellCompDirectiveNoFileComp
}

func namesOf(pods []corev1.Pod) []string {
	names := make([]string, len(pods))
	for i := range pods {
		names[i] = pods[i].Name
	}
	return names
}
