package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/sysfs"
	"github.com/berth-dev/berth/topology"
)

// DefaultRoot is the kubelet's usual root directory.
const DefaultRoot = "/var/lib/kubelet"

// DefaultSpecDirs returns the usual folders of CDI specifications.
func DefaultSpecDirs() []string { return []string{"/etc/cdi", "/var/run/cdi"} }

// NoPodResources as Options.PodResources means that the agent does not use the kubelet's
// PodResources API.
const NoPodResources = "none"

// Options are the settings of an agent. Node and Client are required. The comments of the other
// fields describe their zero values.
type Options struct {
	// Node is the name of the node.
	Node string
	// Client is the configuration for connections to the API server.
	Client *rest.Config

	// Root is the kubelet's root directory; "" means DefaultRoot.
	Root string
	// Machine is a machine string; "" means to read the hardware from SysRoot.
	Machine string
	// SysRoot is the folder that contains sys/; "" means "/".
	SysRoot string
	// Config is the source of the kubelet's configuration; the zero value means the file
	// config.yaml in Root.
	Config ConfigSource
	// KubeletVersion is the kubelet's release ("v1.36.3"); "" means the release in the Node object.
	KubeletVersion string
	// DevicePlugins is the folder with the kubelet's socket for device plugins and with the
	// checkpoint of the device manager; "" means device-plugins in Root. A kubelet always uses
	// /var/lib/kubelet/device-plugins (DevicePluginPath in k8s.io/kubelet), whatever its
	// --root-dir.
	DevicePlugins string
	// PodResources is the unix socket of the kubelet's PodResources API; "" means
	// pod-resources/kubelet.sock in Root.
	PodResources string
	// Preferences are the known rules by which device plugins choose devices, by resource; nil
	// means that no rule is known.
	Preferences map[string]placement.Preference
	// NVIDIA returns the PCI addresses of NVIDIA's GPUs by their UUIDs; nil means to read them from
	// SysRoot.
	NVIDIA func() (map[string]string, error)

	// Authority sets which program chooses CPUs, memory and devices on the node: the kubelet (the
	// default), Berth, or the one that the node's label names (ByLabel).
	Authority v1alpha1.Authority
	// Enforcer is the program that carries out decisions if Berth decides: the agent (the default),
	// koordlet, or EnforcerByLabel.
	Enforcer v1alpha1.Enforcer
	// StateDir is a folder of the host. The agent stores there the newest decisions about resized
	// pods and the last labels of its Node, and uses them if the API server does not answer. If
	// StateDir is "", the agent stores nothing, and no pod can be resized.
	StateDir string
	// Rivals are the programs that also set the CPUs of containers. If one of them runs on a node
	// where Berth decides, and is not the enforcer, the report is not Ready. nil means
	// DefaultRivals.
	Rivals []Rival
	// Enforce has the settings for carrying out decisions where Berth decides.
	Enforce EnforceOptions

	// Devices are the devices that the agent offers to the kubelet if Berth decides; nil means
	// none.
	Devices *offer.Config
	// SpecDirs are the folders of CDI specifications; the agent writes its own specification into
	// the last of them. nil means DefaultSpecDirs.
	SpecDirs []string

	// Namespace is the namespace of the heartbeat Lease; "" means v1alpha1.HeartbeatNamespace.
	Namespace string
	// Heartbeat is the interval at which the agent renews this Lease; 0 means 10 s.
	Heartbeat time.Duration
	// Rescan is the interval at which the agent reads the checkpoints even without a sign of a
	// change; 0 means 10 s.
	Rescan time.Duration
	// MinInterval is the minimum time between two writes of the report; 0 means 100 ms.
	MinInterval time.Duration
	// Amounts makes the agent also publish a NodeResourceTopology, for other programs.
	Amounts bool
	// Numatopology makes the agent also publish a Numatopology, for Volcano's scheduler.
	Numatopology bool
	// KoordinatorDevice makes the agent also publish a Device of scheduling.koordinator.sh.
	KoordinatorDevice bool

	// Now is the agent's clock; nil means time.Now. The times of reports and heartbeats come from
	// it.
	Now func() time.Time
	// Log is the agent's log; nil discards it.
	Log *slog.Logger
	// Metrics is the registry of the agent's metrics; nil means no metrics.
	Metrics prometheus.Registerer
}

// withDefaults fills in the defaults. It fails if a required field is missing.
func (o Options) withDefaults() (Options, error) {
	if o.Node == "" {
		return o, errors.New("agent: Node is empty: want the name of the node")
	}
	if o.Client == nil {
		return o, errors.New("agent: Client is nil: want the address of the API server and credentials for it")
	}
	for name, d := range map[string]time.Duration{"Heartbeat": o.Heartbeat, "Rescan": o.Rescan, "MinInterval": o.MinInterval} {
		if d < 0 {
			return o, fmt.Errorf("agent: %s is %v: want 0 for the default, or a positive duration", name, d)
		}
	}
	setDefault(&o.Authority, v1alpha1.AuthorityKubelet)
	setDefault(&o.Enforcer, v1alpha1.EnforcerAgent)
	setDefault(&o.Enforce.Cgroups, DefaultCgroups)
	setDefault(&o.Root, DefaultRoot)
	setDefault(&o.SysRoot, "/")
	setDefault(&o.DevicePlugins, filepath.Join(o.Root, filepath.Dir(kubeletstate.DeviceFile)))
	setDefault(&o.PodResources, filepath.Join(o.Root, "pod-resources", "kubelet.sock"))
	setDefault(&o.Namespace, v1alpha1.HeartbeatNamespace)
	setDefault(&o.Heartbeat, 10*time.Second)
	setDefault(&o.Rescan, 10*time.Second)
	setDefault(&o.MinInterval, 100*time.Millisecond)
	if o.Rivals == nil {
		o.Rivals = DefaultRivals()
	}
	if len(o.SpecDirs) == 0 {
		o.SpecDirs = DefaultSpecDirs()
	}
	if o.Config.read == nil {
		o.Config = ConfigFile(filepath.Join(o.Root, "config.yaml"), "", "")
	}
	if o.NVIDIA == nil {
		o.NVIDIA = func() (map[string]string, error) { return sysfs.ReadNVIDIA(os.DirFS(o.SysRoot)) }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (o *Options) readMachine() (*topology.Machine, error) {
	if o.Machine != "" {
		return topology.Parse(o.Machine)
	}
	return sysfs.Read(os.DirFS(o.SysRoot))
}

// online returns a function that reads the online CPUs. It returns nil for a machine string, which
// never changes.
func (o *Options) online() func() (topology.CPUSet, error) {
	if o.Machine != "" {
		return nil
	}
	return func() (topology.CPUSet, error) { return sysfs.ReadOnline(os.DirFS(o.SysRoot)) }
}

// host returns the file systems and folders that package offer needs to find devices and to write
// CDI specifications.
func (o *Options) host() offer.Host {
	h := offer.Host{SpecDirs: o.SpecDirs}
	if o.Machine == "" {
		h.Root, h.Proc = os.DirFS(o.SysRoot), os.DirFS("/proc")
	}
	return h
}
