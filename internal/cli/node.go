package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/berth-dev/berth/internal/capture"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/sysfs"
	"github.com/berth-dev/berth/topology"
)

// nodeFlags say which node a question is about: a machine, a kubelet's configuration, and what is handed out.
type nodeFlags struct {
	machine, config, version, state string
	devices                         []string
	guard                           bool
}

// node is a question's node, ready to be asked.
type node struct {
	machine *topology.Machine
	model   *placement.Model
	state   *placement.State
	// warnings say what was assumed.
	warnings []string
}

const (
	kubeletVersionFlag = "kubelet-version"
	maxKubeletConfig   = 1 << 20
)

func (f *nodeFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.machine, "node", "/", "machine string ('package:2 numa:2 core:8 pu:2 mem:64Gi'), or a capture: a folder with sys/ in it, or an archive of one")
	fs.StringVar(&f.config, "kubelet-config", "", "file with the node's KubeletConfiguration; without it every manager's policy is none")
	fs.StringVar(&f.version, kubeletVersionFlag, "1.36", "release of the node's kubelet, 1.33 to 1.37")
	fs.StringVar(&f.state, "state", "", "folder with the kubelet's checkpoints (/var/lib/kubelet); without it the node is empty")
	fs.StringArrayVar(&f.devices, "device", nil, "devices of a plugin, RESOURCE=NUMA:COUNT[,NUMA:COUNT...] (nvidia.com/gpu=0:4,1:4; NUMA - means none); repeat for each resource")
	fs.BoolVar(&f.guard, "guard", true, "refuse, as Berth's scheduler does, what would run into a known defect of the kubelet; false shows what the kubelet does")
}

// load reads everything that the flags name.
func (f *nodeFlags) load() (*node, error) {
	n := new(node)
	var err error
	if n.machine, err = readMachine(f.machine); err != nil {
		return nil, err
	}
	view, err := placement.ViewOf(n.machine)
	if err != nil {
		return nil, err
	}
	config, err := f.kubeletConfig(n.machine)
	if err != nil {
		return nil, err
	}
	config.GuardDefects = f.guard
	if n.model, err = placement.NewModel(view, config); err != nil {
		var invalid *placement.ConfigError
		if errors.As(err, &invalid) && f.config != "" {
			return nil, fmt.Errorf("%s: %w", f.config, err)
		}
		return nil, err
	}
	if config.CPUManagerPolicy != "static" && config.MemoryManagerPolicy != "Static" {
		n.warnings = append(n.warnings, "neither the CPU nor the memory manager of this kubelet is static: it pins nothing (see --kubelet-config)")
	}
	return n, n.fill(f)
}

// fill sets the state: what the checkpoints say is handed out, and the devices.
func (n *node) fill(f *nodeFlags) error {
	n.state = n.model.NewState()
	if f.state != "" {
		if err := n.readState(f.state); err != nil {
			return err
		}
	}
	for _, text := range f.devices {
		pool, err := parsePool(text)
		if err != nil {
			return Usagef("--device %q: %w", text, err)
		}
		n.state.SetPool(pool)
	}
	return nil
}

func (n *node) readState(dir string) error {
	read, err := kubeletstate.Read(os.DirFS(dir))
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if read.CPU == nil && read.Memory == nil && read.Devices == nil {
		return fmt.Errorf("%s: none of %s, %s, %s is there", dir, kubeletstate.CPUFile, kubeletstate.MemoryFile, kubeletstate.DeviceFile)
	}
	if err := read.Check(); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	snap, err := read.Snapshot()
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if read.CPU == nil || read.CPU.Policy != "static" {
		snap.SharedCPUs = n.state.SharedCPUs()
	}
	if n.state, err = n.model.StateOf(&snap); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if len(snap.Devices) > 0 {
		n.warnings = append(n.warnings, "the checkpoint says of free devices only that they exist, not where: name them with --device")
	}
	return nil
}

// readMachine takes an existing path for a capture and everything else for a machine string.
func readMachine(text string) (*topology.Machine, error) {
	path, _, _ := strings.Cut(text, ":")
	if _, err := os.Stat(path); err != nil {
		m, parseErr := topology.Parse(text)
		if parseErr != nil && strings.ContainsAny(text, "/.") && !strings.Contains(text, " ") {
			return nil, fmt.Errorf("--node %s: no such capture, and no machine string either: %w", text, parseErr)
		}
		return m, parseErr
	}
	c, err := capture.Open(text)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m, err := sysfs.Read(c.FS)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return m, nil
}

func (f *nodeFlags) kubeletConfig(m *topology.Machine) (placement.Config, error) {
	version, err := parseVersion(f.version)
	if err != nil {
		return placement.Config{}, err
	}
	kubelet := wire.Kubelet{Version: version}
	for _, n := range m.NUMANodes {
		kubelet.MemoryBytes += n.MemoryBytes
	}
	var c kubeletv1beta1.KubeletConfiguration
	if f.config != "" {
		data, err := readInput(f.config, nil, maxKubeletConfig)
		if err != nil {
			return placement.Config{}, err
		}
		if err := unmarshalStrict(data, &c); err != nil {
			return placement.Config{}, fmt.Errorf("%s: %w", f.config, err)
		}
		if c.Kind != "KubeletConfiguration" || c.APIVersion != kubeletv1beta1.SchemeGroupVersion.String() {
			return placement.Config{}, fmt.Errorf("%s: apiVersion %q, kind %q: want %s, KubeletConfiguration", f.config, c.APIVersion, c.Kind, kubeletv1beta1.SchemeGroupVersion)
		}
	}
	config, err := wire.Config(&c, kubelet)
	if err != nil {
		return config, fmt.Errorf("%s: %w", f.config, err)
	}
	return config, nil
}

// parseVersion reads "1.36", "v1.36.3".
func parseVersion(text string) (placement.Version, error) {
	m := versionForm.FindStringSubmatch(text)
	if m == nil {
		return 0, Usagef("--%s %q: want 1.33 to 1.37", kubeletVersionFlag, text)
	}
	minor, err := strconv.ParseUint(m[1], 10, 8)
	if err != nil || minor < uint64(placement.V133) || minor > uint64(placement.V137) {
		return 0, Usagef("--%s %q: want 1.33 to 1.37", kubeletVersionFlag, text)
	}
	return placement.Version(minor), nil
}

var versionForm = regexp.MustCompile(`^v?1\.([0-9]{1,3})(\.[0-9]+)?([-+].*)?$`)

// maxPool bounds the devices of one --device.
const maxPool = 4096

// parsePool reads RESOURCE=NUMA:COUNT[,NUMA:COUNT...]. Ids are NUMA-NUMBER ("0-3"), chosen in their order.
func parsePool(text string) (placement.DevicePool, error) {
	resource, list, ok := strings.Cut(text, "=")
	if !ok || !strings.Contains(resource, "/") {
		return placement.DevicePool{}, errors.New("want RESOURCE=NUMA:COUNT, like nvidia.com/gpu=0:4,1:4")
	}
	pool := placement.DevicePool{Resource: resource, Preference: placement.SortedPreference}
	for item := range strings.SplitSeq(list, ",") {
		numa, count, _ := strings.Cut(item, ":")
		n, err := strconv.ParseUint(count, 10, 16)
		if err != nil || len(pool.Devices)+int(n) > maxPool {
			return pool, fmt.Errorf("%q: want NUMA:COUNT with at most %d devices in all", item, maxPool)
		}
		device := placement.Device{}
		if numa != "-" {
			set, err := topology.ParseNUMAList(numa)
			if err != nil || set.Len() != 1 {
				return pool, fmt.Errorf("%q: want a NUMA node's number, or -, before the colon", item)
			}
			device.NUMA, device.HasTopology = set, true
		}
		for i := range n {
			device.ID = fmt.Sprintf("%s-%d", numa, i)
			pool.Devices = append(pool.Devices, device)
		}
	}
	slices.SortFunc(pool.Devices, func(a, b placement.Device) int { return strings.Compare(a.ID, b.ID) })
	return pool, nil
}
