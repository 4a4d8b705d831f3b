package oracle

import (
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/utils/cpuset"

	"github.com/berth-dev/berth/test/replay/cases"
)

// settings are the arguments of the managers' constructors: a case's machine and configuration.
type settings struct {
	info *cadvisorMachine
	// dir holds the checkpoints.
	dir string

	cpuPolicy      string
	cpuOptions     map[string]string
	reservedCPUs   cpuset.CPUSet
	memoryPolicy   string
	reservedMemory []kubeletconfig.MemoryReservation
	// reservation is the result of ContainerManager.GetNodeAllocatableReservation: kubeReserved,
	// systemReserved and hard eviction.
	reservation    corev1.ResourceList
	topologyPolicy string
	topologyScope  string
	topologyOpts   map[string]string
}

func (s *settings) socket() string { return filepath.Join(s.dir, "device-plugins", "kubelet.sock") }

// newSettings fills in the defaults of KubeletConfiguration. The node reserves the amounts of
// reservedMemory, because a case has no other information about reserved memory.
func newSettings(c *cases.Case, dir string) (*settings, error) {
	cfg := &c.Config
	s := &settings{
		info: machineInfo(&c.Machine), dir: dir,
		cpuPolicy: or(cfg.CPUManagerPolicy, "none"), cpuOptions: cfg.CPUManagerPolicyOptions,
		memoryPolicy:   or(cfg.MemoryManagerPolicy, "None"),
		topologyPolicy: or(cfg.TopologyManagerPolicy, "none"), topologyScope: or(cfg.TopologyManagerScope, "container"),
		topologyOpts: cfg.TopologyManagerPolicyOptions,
		reservation:  corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0"), corev1.ResourceMemory: resource.MustParse("0")},
	}
	return s, s.reserve(cfg)
}

// reserve reads the reservations of the configuration.
func (s *settings) reserve(cfg *cases.Config) error {
	if cfg.ReservedCPU != nil {
		s.reservation[corev1.ResourceCPU] = cfg.ReservedCPU.DeepCopy()
	}
	if cfg.ReservedSystemCPUs != "" {
		set, err := cpuset.Parse(cfg.ReservedSystemCPUs)
		if err != nil {
			return fmt.Errorf("unable to parse reservedSystemCPUs: %w", err)
		}
		s.reservedCPUs = set
		s.reservation[corev1.ResourceCPU] = *resource.NewQuantity(int64(set.Size()), resource.DecimalSI)
	}
	for _, r := range cfg.ReservedMemory {
		s.reservedMemory = append(s.reservedMemory, kubeletconfig.MemoryReservation{NumaNode: int32(r.NUMANode), Limits: r.Limits})
		for name, q := range r.Limits {
			sum := s.reservation[name]
			sum.Add(q)
			s.reservation[name] = sum
		}
	}
	return nil
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func machineInfo(m *cases.Machine) *cadvisorMachine {
	info := &cadvisorMachine{NumCores: m.Threads(), NumSockets: m.Sockets()}
	for i := range m.Nodes {
		info.Topology = append(info.Topology, node(&m.Nodes[i]))
		info.MemoryCapacity += m.Nodes[i].Memory
		info.NumPhysicalCores += len(m.Nodes[i].Cores)
	}
	return info
}

func node(n *cases.Node) cadvisorNode {
	out := cadvisorNode{Id: int(n.ID), Memory: n.Memory, Distances: n.Distances}
	for _, h := range n.HugePages {
		out.HugePages = append(out.HugePages, cadvisorHugePages{PageSize: h.SizeKB, NumPages: h.Count})
	}
	for _, c := range n.Cores {
		core := cadvisorCore{Id: c.ID, SocketID: c.Socket}
		for _, t := range c.Threads {
			core.Threads = append(core.Threads, int(t))
		}
		if c.L3 != nil {
			core.UncoreCaches = []cadvisorCache{{Id: *c.L3, Type: "Unified", Level: 3}}
		}
		out.Cores = append(out.Cores, core)
	}
	return out
}
