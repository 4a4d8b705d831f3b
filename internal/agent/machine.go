package agent

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

type machineSource func() (*topology.Machine, error)

// reportedClasses are the PCI classes of devices that pods use: NVMe disks, network, display (GPU),
// co-processors, accelerators. Other devices, such as bridges, would only enlarge the report.
var reportedClasses = []string{"0108", "02", "03", "0b40", "12"}

// reported returns the machine with only the devices of the report: devices that are offered or of
// reportedClasses, all switches above them, and the links between them. It removes the names of
// virtual functions, because a name disappears from the host when a pod gets the function.
func reported(m *topology.Machine, offers *offer.Config) *topology.Machine {
	out := *m
	out.Devices, out.Links = nil, nil
	isReported := func(d *topology.Device) bool { return isReported(d) || offers.Selects(d) }
	above := map[string]bool{}
	for i := range m.Devices {
		if isReported(&m.Devices[i]) {
			for _, address := range m.Switches(&m.Devices[i]) {
				above[address] = true
			}
		}
	}
	for _, d := range m.Devices {
		keep := isReported(&d)
		if d.Physical != "" {
			d.Name, d.RDMA = "", ""
		}
		if keep || d.Switch != "" && above[d.Address] {
			out.Devices = append(out.Devices, d)
		}
	}
	for _, l := range m.Links {
		if out.Device(l.A) != nil && out.Device(l.B) != nil {
			out.Links = append(out.Links, l)
		}
	}
	return &out
}

func isReported(d *topology.Device) bool {
	return slices.ContainsFunc(reportedClasses, func(c string) bool { return strings.HasPrefix(d.Class, c) })
}

// platform has the machine and the configuration as the running kubelet has read them. Only the
// devices change before the kubelet restarts.
type platform struct {
	spec wire.NodeSpec
	// config is the configuration from which spec.Config was computed.
	config *kubeletv1beta1.KubeletConfiguration
	// offered are the devices that the agent offers to the kubelet.
	offered []offer.Pool
	// model is the engine's model of the node. If the engine cannot predict the node, model is nil
	// and problem has the reason.
	model   *placement.Model
	problem error
	// wrong is the error if labels are invalid or the agent cannot offer devices. The field problem
	// is then the same error.
	wrong error
	// memoryBytes is the machine's memory; settings of the kubelet can be a percentage of it.
	memoryBytes uint64
	// listsAll means that the PodResources API also lists ended pods until they are deleted: before
	// Kubernetes 1.34, or with its gate KubeletPodResourcesListUseActivePods off.
	listsAll bool
	// tellsAdmitted means that the kubelet writes allocated_pods_state. Before Kubernetes 1.35, the
	// gate InPlacePodVerticalScaling can be off, and the kubelet then does not write it.
	tellsAdmitted bool
}

// decider has the authority, the enforcer and Koordinator's labels of a node, and the agent's
// offers.
type decider struct {
	authority v1alpha1.Authority
	enforcer  v1alpha1.Enforcer
	labels    wire.KoordinatorNode
	// devices are the agent's offers if Berth decides.
	devices *offer.Config
	// partitioned is wire.Partitioned of the node.
	partitioned bool
}

// deciderOf returns authority and enforcer from the flags or the node's labels, and Koordinator's
// labels if Berth decides. The error describes an invalid label of the node.
func deciderOf(flag v1alpha1.Authority, enforcer v1alpha1.Enforcer, devices *offer.Config, node *corev1.Node) (by decider, err error) {
	by.devices, by.partitioned = devices, node != nil && wire.Partitioned(node)
	if by.authority, err = authorityOf(flag, node); err != nil || by.authority != v1alpha1.AuthorityBerth || node == nil {
		return by, err
	}
	if by.enforcer, err = enforcerOf(enforcer, node); err == nil {
		by.labels, err = wire.ReadKoordinatorNode(node)
	}
	return by, err
}

// offers returns the agent's offers. It returns nil if the kubelet decides. It also returns nil if
// koordlet carries out Berth's decisions, because koordlet gives containers no devices.
func (by *decider) offers() *offer.Config {
	if by.authority != v1alpha1.AuthorityBerth || by.enforcer == v1alpha1.EnforcerKoordlet {
		return nil
	}
	return by.devices
}

func discover(ctx context.Context, machine machineSource, config ConfigSource, version string, by decider) (platform, error) {
	m, err := machine()
	if err != nil {
		return platform{}, fmt.Errorf("machine: %w", err)
	}
	koordlet := by.authority == v1alpha1.AuthorityBerth && by.enforcer == v1alpha1.EnforcerKoordlet
	trimmed := reported(m, by.offers())
	view, err := placement.ViewOf(trimmed)
	if err != nil {
		return platform{}, fmt.Errorf("machine: %w", err)
	}
	release, err := wire.ReadKubeletVersion(version)
	if err != nil {
		return platform{}, err
	}
	raw, err := config.read(ctx)
	if err != nil {
		return platform{}, err
	}
	memory := memoryOf(view)
	c, err := wire.ReadConfig(raw, wire.KubeletFacts{Version: release, MemoryBytes: memory, Partitioned: by.partitioned})
	if err != nil {
		return platform{}, err
	}
	p := platform{
		config:        raw,
		memoryBytes:   memory,
		listsAll:      release < placement.V134 || off(c.FeatureGates, "KubeletPodResourcesListUseActivePods"),
		tellsAdmitted: release >= placement.V135 || release >= placement.V133 && !off(c.FeatureGates, "InPlacePodVerticalScaling"),
	}
	c.FeatureGates = gatesOf(c.FeatureGates)
	if by.authority == v1alpha1.AuthorityBerth {
		c.Authority, c.Default, c.Strategy = placement.AuthorityBerth, by.labels.Rules, by.labels.Strategy
		c.Default.CPUs = by.labels.CPUs
	}
	c.MemoryStays = koordlet
	p.spec = wire.NodeSpec{Machine: trimmed, View: view, Config: c, Authority: by.authority, Koordlet: koordlet, KubeletVersion: version}
	p.offer(m, by.offers())
	return p, nil
}

// offer finds the devices to offer, and compiles the model.
func (p *platform) offer(m *topology.Machine, offers *offer.Config) {
	p.offered, p.wrong = offers.Resolve(m)
	p.spec.Config.Devices = placement.DevicesOf(p.spec.Machine, poolsOf(p.offered, nil))
	p.compile()
}

// withDevicesOf returns a copy of the platform with the devices of m. All other parts stay as they
// were when the kubelet started.
func (p platform) withDevicesOf(m *topology.Machine, offers *offer.Config) platform {
	machine, now := *p.spec.Machine, reported(m, offers)
	machine.Devices, machine.Links = now.Devices, now.Links
	p.spec.Machine = &machine
	p.offer(m, offers)
	return p
}

func (p *platform) compile() {
	p.model, p.problem = placement.NewModel(p.spec.View, p.spec.Config)
	if p.wrong != nil {
		p.problem = p.wrong
	}
}

// The function off reports whether a feature gate is explicitly switched off.
func off(gates map[string]bool, name string) bool {
	on, set := gates[name]
	return set && !on
}

func memoryOf(view *placement.KubeletView) (sum uint64) {
	for i := range view.Nodes {
		sum += view.Nodes[i].MemoryBytes
	}
	return sum
}

// withMemoryOf returns a copy of the platform with the amounts of memory that the kubelet found
// when it started. They are in s, the checkpoint of the kubelet's memory manager.
func (p platform) withMemoryOf(s *kubeletstate.MemoryState) (platform, error) {
	if s == nil {
		return p, nil
	}
	view := *p.spec.View
	view.Nodes = slices.Clone(view.Nodes)
	if err := s.View(&view); err != nil {
		return p, err
	}
	if reflect.DeepEqual(&view, p.spec.View) {
		return p, nil
	}
	p.spec.View = &view
	p.compile()
	return p, nil
}
