package hollow

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/internal/sampleplugin"
	"github.com/berth-dev/berth/topology"
)

// Spec describes a node. The node's process gets it as JSON.
type Spec struct {
	// Name is the name of the Node object.
	Name string
	// Machine is the hardware, as topology.Parse reads it.
	Machine string
	// KubeletConfig is a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) in YAML. The node
	// decodes it as the kubelet decodes its file: it logs unknown fields and ignores them. The
	// policies, options, reservations, eviction thresholds and feature gates have their usual
	// effect. The node overrides the settings of features that a node without a machine cannot
	// have, like cgroups, servers and certificates.
	KubeletConfig string
	// Labels are the labels of the Node object.
	Labels map[string]string
	// Plugins are device plugins that run on the node.
	Plugins []Plugin
	// NRI makes the node's runtime call NRI plugins, which connect to the socket Dir.NRI. The
	// runtime then has cgroups, as files below Dir.Cgroups. A node with authority berth needs NRI.
	NRI bool
	// Devices is the document with the devices that the node's agent offers (internal/offer), or
	// "". The node itself does not read it.
	Devices string
	// MaxPods overrides maxPods of KubeletConfig; 0 keeps it. The kubelet's default is 110.
	MaxPods int32
	// StopTime is the time that a container takes to stop; 0 means DefaultStopTime. In cri-api's
	// fake runtime, stopping takes no time. If containers stopped at once, a deleted pod could free
	// its resources before the node receives a Binding that was already in progress.
	StopTime time.Duration
}

// DefaultStopTime is the typical time that a container takes to stop if its process ends at the
// first signal.
const DefaultStopTime = 500 * time.Millisecond

// Plugin is a device plugin for one resource. Device is one of its devices.
type (
	Plugin = sampleplugin.Plugin
	Device = sampleplugin.Device
)

// Dir is the directory of a node. Its methods return the paths in it. The layout below Root is the
// layout of the kubelet's root directory (by default /var/lib/kubelet).
type Dir string

// Root is the kubelet's root directory (--root-dir).
func (d Dir) Root() string { return string(d) }

// Spec is the file that holds the node's Spec.
func (d Dir) Spec() string { return filepath.Join(string(d), "node.json") }

// Kubeconfig is the file with the node's credentials.
func (d Dir) Kubeconfig() string { return filepath.Join(string(d), "kubeconfig") }

// KubeletConfig is the file of the node's effective KubeletConfiguration in YAML, with the fields
// that a kubelet's /configz would return.
func (d Dir) KubeletConfig() string { return filepath.Join(string(d), "config.yaml") }

// Checkpoint is the path of a checkpoint of the kubelet. `file` is one of the file names in
// internal/kubeletstate.
func (d Dir) Checkpoint(file string) string { return filepath.Join(string(d), file) }

// DevicePlugins is the directory with the sockets and the checkpoint of the Device Manager.
func (d Dir) DevicePlugins() string { return filepath.Join(string(d), "device-plugins") }

// Registry is the directory in which DRA drivers register, with one socket each.
func (d Dir) Registry() string { return filepath.Join(string(d), "plugins_registry") }

// Driver is the directory of a DRA driver's own files.
func (d Dir) Driver(name string) string { return filepath.Join(string(d), "plugins", name) }

// PodResources is the socket of the PodResources API.
func (d Dir) PodResources() string {
	return filepath.Join(string(d), "pod-resources", "kubelet.sock")
}

// NRI is the socket to which NRI plugins connect.
func (d Dir) NRI() string { return filepath.Join(string(d), "nri.sock") }

// CDI is the folder of the CDI specifications that the runtime reads.
func (d Dir) CDI() string { return filepath.Join(string(d), "cdi") }

// Cgroups is the folder that replaces /sys/fs/cgroup.
func (d Dir) Cgroups() string { return filepath.Join(string(d), "cgroup") }

// Log is the file with the node's log.
func (d Dir) Log() string { return filepath.Join(string(d), "node.log") }

// maxSocketPath is the size of sockaddr_un.sun_path in bytes, without its terminating zero
// (unix(7)).
const maxSocketPath = 107

func (d Dir) longestSocket(spec *Spec) string {
	longest := d.PodResources()
	for _, name := range append(pluginSockets(spec), "kubelet.sock") {
		if path := filepath.Join(d.DevicePlugins(), name); len(path) > len(longest) {
			longest = path
		}
	}
	return longest
}

// pluginSockets returns the names of the device plugins' sockets, in the order of spec.Plugins.
func pluginSockets(spec *Spec) (names []string) {
	for i := range spec.Plugins {
		names = append(names, fmt.Sprintf("plugin-%d.sock", i))
	}
	return names
}

// Write creates the directory, and writes the Spec and the kubeconfig into it.
func (d Dir) Write(spec *Spec, kubeconfig []byte) error {
	if err := spec.Check(); err != nil {
		return err
	}
	if path := d.longestSocket(spec); len(path) > maxSocketPath {
		return fmt.Errorf("node %s: socket path %s has %d bytes: want at most %d, so choose a shorter directory", spec.Name, path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("node %s: %w", spec.Name, err)
	}
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return fmt.Errorf("node %s: %w", spec.Name, err)
	}
	return errors.Join(os.WriteFile(d.Spec(), data, 0o600), os.WriteFile(d.Kubeconfig(), kubeconfig, 0o600))
}

// ReadSpec reads the node's Spec back.
func (d Dir) ReadSpec() (*Spec, error) {
	data, err := os.ReadFile(d.Spec())
	if err != nil {
		return nil, err
	}
	spec := &Spec{}
	if err := json.Unmarshal(data, spec); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Spec(), err)
	}
	return spec, spec.Check()
}

// Check returns an error if the Spec is wrong. It does not repeat the kubelet's own validation of
// its configuration.
func (s *Spec) Check() error {
	if s.Name == "" {
		return errors.New("node: field Name is empty: want the Node object's name")
	}
	if _, err := topology.Parse(s.Machine); err != nil {
		return fmt.Errorf("node %s: field Machine: %w", s.Name, err)
	}
	if s.StopTime < 0 {
		return fmt.Errorf("node %s: field StopTime: %v: want 0 for the default, or a positive duration", s.Name, s.StopTime)
	}
	for i := range s.Plugins {
		if err := s.Plugins[i].Check(); err != nil {
			return fmt.Errorf("node %s: field Plugins[%d]: %w", s.Name, i, err)
		}
	}
	return nil
}
