// Command berth-agent reports one node to the API: its machine, the kubelet's configuration, and
// the present assignments. With authority berth, it can also carry out the scheduler's decisions.
// It runs on every node, as a DaemonSet.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/enforce"
	"github.com/berth-dev/berth/internal/guarded"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/placement"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}

type settings struct {
	options       agent.Options
	kubeconfig    string
	kubeletConfig string
	configDir     string
	configz       string
	kubeletFlags  string
	preferences   string
	authority     string
	enforcer      string
	rivals        string
	onCollision   string
	devices       string
	specDirs      string
	listen        string
	metricsAuth   string
	metricsCerts  string
	logFormat     string
	debug         bool
	version       bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "berth-agent:", err)
		return exitUsage
	case s.version:
		fmt.Fprintln(stdout, "berth-agent version", version.Version)
		return exitOK
	}
	if err := s.run(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, "berth-agent:", err)
		return exitFailure
	}
	return exitOK
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	o := &s.options
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.Node, "node-name", os.Getenv("NODE_NAME"), "name of the node (default: the environment's NODE_NAME)")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig with credentials for the API server (default: those of the pod)")
	f.StringVar(&o.Root, "kubelet-root-dir", agent.DefaultRoot, "the kubelet's root directory")
	f.StringVar(&o.DevicePlugins, "device-plugins-dir", "", "folder of device plugins; a kubelet always uses /var/lib/kubelet/device-plugins (default: device-plugins in the kubelet's root directory)")
	f.StringVar(&s.kubeletConfig, "kubelet-config", "", "the kubelet's configuration file (default: config.yaml in the kubelet's root directory)")
	f.StringVar(&s.configDir, "kubelet-config-dir", "", "directory with drop-ins of the kubelet's configuration")
	f.StringVar(&s.kubeletFlags, "kubelet-flags", "", "flags of the kubelet that override its files, like --system-reserved=memory=1Gi")
	f.StringVar(&s.configz, "configz", "", "URL at which to ask the kubelet for its configuration instead of reading files, like https://NODE:10250/configz")
	f.StringVar(&o.KubeletVersion, "kubelet-version", "", "the kubelet's release, like v1.36.3 (default: the release in the Node object)")
	f.StringVar(&o.PodResources, "pod-resources", "", "the kubelet's PodResources socket, or none (default: pod-resources/kubelet.sock in the kubelet's root directory)")
	f.StringVar(&o.SysRoot, "sys-root", "/", "folder that contains sys/")
	f.StringVar(&o.Machine, "machine", "", "machine string to report instead of the machine in sys/")
	f.StringVar(&s.preferences, "device-preferences", "", "how device plugins choose devices: RESOURCE=none|sorted|nvidia|unknown, separated by commas")
	f.StringVar(&s.authority, "authority", "kubelet", "program that decides about CPUs, memory and devices on the node: kubelet, berth (the agent carries out Berth's decisions through the runtime's NRI), or label (the value of the Node's label "+agent.AuthorityLabel+")")
	f.StringVar(&s.enforcer, "enforcer", "agent", "with authority berth: program that carries out decisions: agent, koordlet, or label (the value of the Node's label "+agent.EnforcerLabel+")")
	f.StringVar(&s.rivals, "rivals", joined(agent.DefaultRivals()), "with authority berth: other programs that set the CPUs of containers, as PROGRAM=NAMESPACE/DAEMONSET/SERVICEACCOUNT of their pods, separated by commas")
	f.StringVar(&o.StateDir, "state-dir", "", "folder of the host in which the agent stores the newest decisions for resized pods and the last labels of its Node; it uses them while the API server does not answer (default: none)")
	f.StringVar(&o.Enforce.NRISocket, "nri-socket", "", "with authority berth: the container runtime's NRI socket (default /var/run/nri/nri.sock)")
	f.StringVar(&o.Enforce.NRIVersion, "nri-version", "", "with authority berth: the release of the runtime's NRI, like v0.12.0 (default: the release that the runtime reports)")
	f.StringVar(&o.Enforce.Cgroups, "cgroup-root", agent.DefaultCgroups, "with authority berth: mount point of cgroup v2")
	f.StringVar(&s.onCollision, "on-collision", "hold", "with authority berth: what to do if a container's decision cannot be carried out: hold the container back, or confine it to the shared CPUs")
	f.BoolVar(&o.Enforce.LiftQuota, "lift-quota", false, "with authority berth: remove the CFS quota of containers with exclusive CPUs (the quota of their pod stays)")
	f.StringVar(&s.devices, "devices", "", "with authority berth: file that lists the devices that the agent offers to the kubelet and gives to containers as decided (default: none)")
	f.StringVar(&s.specDirs, "cdi-dirs", strings.Join(agent.DefaultSpecDirs(), ","), "with authority berth: folders of CDI specifications, separated by commas; the agent writes its own specifications into the last folder")
	f.StringVar(&o.Namespace, "lease-namespace", "", "namespace of the heartbeat Lease (default berth-system)")
	f.DurationVar(&o.Heartbeat, "heartbeat", 0, "interval of heartbeats (default 10s)")
	f.DurationVar(&o.Rescan, "rescan", 0, "how often to read the checkpoints even if no change was noticed (default 10s)")
	f.DurationVar(&o.MinInterval, "min-interval", 0, "shortest time between two reports (default 100ms)")
	f.BoolVar(&o.Numatopology, "numatopology", false, "also publish a Numatopology (nodeinfo.volcano.sh/v1alpha1), for Volcano's scheduler; Volcano's exporter must not run on the node")
	f.BoolVar(&o.KoordinatorDevice, "koordinator-device", false, "also publish a Device (scheduling.koordinator.sh/v1alpha1) with the GPUs and RDMA cards of the node; koordlet must not report devices there")
	f.BoolVar(&o.Amounts, "node-resource-topology", false, "also publish a NodeResourceTopology (topology.node.k8s.io/v1alpha2)")
	f.StringVar(&s.listen, "listen", "127.0.0.1:9746", "address of /metrics, /healthz and /readyz; empty: none")
	f.StringVar(&s.metricsAuth, "metrics-auth", guarded.None, "who can read /metrics: none (everyone, over plain HTTP) or cluster (over TLS, users whom the API server allows to get it)")
	f.StringVar(&s.metricsCerts, "metrics-cert-dir", "", "with --metrics-auth=cluster: folder with tls.crt and tls.key (default: a certificate that the agent signs itself)")
	f.StringVar(&s.logFormat, "log-format", "text", "text or json")
	f.BoolVar(&s.debug, "debug", false, "write debug messages to the log")
	f.BoolVar(&s.version, "version", false, "print the release and exit")
	if err := f.Parse(args[1:]); err != nil || s.version {
		return s, err
	}
	return s, s.check(f.Args())
}

func (s *settings) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("argument %q: want only flags", rest[0])
	}
	if s.options.Node == "" {
		return errors.New("--node-name is missing, and NODE_NAME is not set")
	}
	if s.logFormat != "text" && s.logFormat != "json" {
		return fmt.Errorf("--log-format %q: want text or json", s.logFormat)
	}
	if err := guarded.Check(s.metricsAuth, s.metricsCerts); err != nil {
		return err
	}
	if s.configz != "" && (s.kubeletConfig != "" || s.configDir != "" || s.kubeletFlags != "") {
		return errors.New("--configz: want neither --kubelet-config, --kubelet-config-dir nor --kubelet-flags, because the kubelet's answer already includes these settings")
	}
	switch a := v1alpha1.Authority(s.authority); a {
	case v1alpha1.AuthorityKubelet, v1alpha1.AuthorityBerth, agent.ByLabel:
		s.options.Authority = a
	default:
		return fmt.Errorf("--authority %q: want kubelet, berth or label", s.authority)
	}
	switch e := v1alpha1.Enforcer(s.enforcer); e {
	case v1alpha1.EnforcerAgent, v1alpha1.EnforcerKoordlet, agent.EnforcerByLabel:
		s.options.Enforcer = e
	default:
		return fmt.Errorf("--enforcer %q: want agent, koordlet or label", s.enforcer)
	}
	mode, ok := map[string]enforce.Mode{"hold": enforce.Hold, "confine": enforce.Confine}[s.onCollision]
	if s.options.Enforce.OnCollision = mode; !ok {
		return fmt.Errorf("--on-collision %q: want hold or confine", s.onCollision)
	}
	if s.options.SpecDirs = strings.Split(s.specDirs, ","); slices.Contains(s.options.SpecDirs, "") {
		return fmt.Errorf("--cdi-dirs %q: want folders separated by commas, without an empty entry", s.specDirs)
	}
	if s.devices != "" && s.options.Authority == v1alpha1.AuthorityKubelet {
		return errors.New("--devices: want --authority=berth or --authority=label, because with --authority=kubelet the vendors' device plugins offer the devices")
	}
	var err error
	if s.options.Rivals, err = agent.ParseRivals(s.rivals); err != nil {
		return fmt.Errorf("--rivals %w", err)
	}
	if s.options.Preferences, err = parsePreferences(s.preferences); err != nil || s.devices == "" {
		return err
	}
	s.options.Devices, err = readDevices(s.devices)
	return err
}

// joined formats rivals as the value of the flag.
func joined(rivals []agent.Rival) string {
	texts := make([]string, len(rivals))
	for i := range rivals {
		texts[i] = rivals[i].String()
	}
	return strings.Join(texts, ",")
}

func readDevices(name string) (*offer.Config, error) {
	doc, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--devices: %w", err)
	}
	return offer.Read("--devices "+name, doc)
}

func parsePreferences(text string) (map[string]placement.Preference, error) {
	if text == "" {
		return nil, nil
	}
	words := map[string]placement.Preference{"none": placement.NoPreference, "sorted": placement.SortedPreference, "nvidia": placement.NVIDIAPreference, "unknown": placement.UnknownPreference}
	out := map[string]placement.Preference{}
	for item := range strings.SplitSeq(text, ",") {
		resource, word, _ := strings.Cut(item, "=")
		p, ok := words[word]
		if resource == "" || !ok {
			return nil, fmt.Errorf("--device-preferences %q: want RESOURCE=PREFERENCE, where PREFERENCE is none, sorted, nvidia or unknown", item)
		}
		out[resource] = p
	}
	return out, nil
}

func (s *settings) run(ctx context.Context, stdout io.Writer) error {
	s.options.Log = s.logger(stdout)
	s.options.Log.Info("berth-agent", "version", version.Version)
	client, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	client.UserAgent = "berth-agent"
	s.options.Client = client
	if s.options.Config, err = s.configSource(client); err != nil {
		return err
	}
	if err := checkRoot(s.options.Root); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), version.Info())
	s.options.Metrics = registry
	if s.listen == "" {
		return agent.Run(ctx, s.options)
	}
	stop, err := s.serve(registry)
	if err != nil {
		return err
	}
	defer stop()
	return agent.Run(ctx, s.options)
}

// checkRoot returns an error if the agent cannot watch the directory. The error names the flag that
// sets another directory.
func checkRoot(root string) error {
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return fmt.Errorf("--kubelet-root-dir=%s: %w: want the kubelet's root directory (kubelet --root-dir), mounted where the agent runs", root, err)
	}
	return nil
}

func (s *settings) logger(w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if s.debug {
		level = slog.LevelDebug
	}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// configSource returns the source of the kubelet's configuration that the flags select.
func (s *settings) configSource(client *rest.Config) (agent.ConfigSource, error) {
	if s.configz != "" {
		http, err := rest.HTTPClientFor(client)
		if err != nil {
			return agent.ConfigSource{}, fmt.Errorf("credentials: %w", err)
		}
		return agent.Configz(http, s.configz), nil
	}
	return agent.ConfigFile(cmp.Or(s.kubeletConfig, s.options.Root+"/config.yaml"), s.configDir, s.kubeletFlags), nil
}

// serve serves metrics, /healthz and /readyz until the returned function is called. The process is
// healthy if it answers, and ready if its report is up to date. Health and readiness need no
// authentication.
func (s *settings) serve(registry *prometheus.Registry) (func(), error) {
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	log := s.options.Log
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	if s.metricsAuth == guarded.Cluster {
		if listener, metrics, err = s.guard(listener, metrics); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { ready(w, registry) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics server ended", "error", err)
		}
	}()
	log.Info("serving metrics", "address", listener.Addr().String())
	return func() { _ = server.Close() }, nil
}

// guard wraps the listener in TLS. It wraps the handler of the metrics so that the handler answers
// only users that the API server authorizes.
func (s *settings) guard(listener net.Listener, metrics http.Handler) (net.Listener, http.Handler, error) {
	secure, err := guarded.TLS(s.metricsCerts, s.options.Node)
	if err != nil {
		return nil, nil, err
	}
	metrics, err = guarded.Handler(s.options.Client, logr.FromSlogHandler(s.options.Log.Handler()), metrics)
	return tls.NewListener(listener, secure), metrics, err
}

// readyAge is the age of the report, in seconds, from which the agent is not ready.
const readyAge = 60

// ready handles /readyz. It uses the value of the metric berth_agent_report_age_seconds.
func ready(w http.ResponseWriter, registry *prometheus.Registry) {
	families, err := registry.Gather()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, f := range families {
		if f.GetName() == "berth_agent_report_age_seconds" {
			if age := f.GetMetric()[0].GetGauge().GetValue(); age >= 0 && age < readyAge {
				fmt.Fprintf(w, "ok: the report was confirmed %.0f s ago\n", age)
				return
			}
		}
	}
	http.Error(w, fmt.Sprintf("no report was confirmed in the last %d s", readyAge), http.StatusServiceUnavailable)
}
