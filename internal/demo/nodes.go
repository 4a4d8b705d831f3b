package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// The extended resources of the demo, named as the plugins of their vendors name them.
const (
	gpuResource = "nvidia.com/gpu"
	nicResource = "rdma/hca"
)

// gpuServer and snc2 have huge pages of both sizes on every NUMA node.
var (
	gpuServer = strings.Replace(shapes.GPUServer, "huge:2Mi=0;1Gi=0", "huge:2Mi=8192;1Gi=32", 1)
	snc2      = strings.Replace(shapes.XeonSNC2, "1Gi=0", "1Gi=8", 1)
)

// shape is a machine with a kubelet configuration. One or more nodes of the demo have this shape.
type shape struct {
	name string
	// what describes the machine in a few words.
	what    string
	machine string
	policy  string // topologyManagerPolicy
	scope   string // topologyManagerScope; "" is container
	// reserved is reservedSystemCPUs.
	reserved string
	// cpuOptions and topologyOptions are the policy options that are on.
	cpuOptions, topologyOptions []string
	// pinMemory is memoryManagerPolicy Static. A machine with 8 NUMA nodes has either pinned memory
	// or devices, because with hints for three resources its kubelet needs seconds to merge them.
	pinMemory bool
	// devices means that plugins for GPUs and network cards run on the node.
	devices bool
	// wedge is the CPU request of each pod of the wedge (see Generate); 0 means that the node gets
	// no wedge. The node has enough free CPUs for three such pods, but its NUMA nodes have room for
	// only two of them.
	wedge int64
}

// nodeShapes are the nodes of the demo in their order: real machines with different policies,
// scopes and options of the kubelet. The first core of one socket, or of each of two sockets, is
// reserved. On the first MinNodes nodes, only CPUs can be pinned.
var nodeShapes = []shape{
	{name: "xeon-a", what: "2-socket Xeon, interleaved", machine: shapes.Xeon6230, policy: "single-numa-node", reserved: "0-1,40-41", wedge: 25},
	{name: "xeon-b", what: "2-socket Xeon, interleaved", machine: shapes.Xeon6230, policy: "restricted", reserved: "0-1,40-41",
		cpuOptions: []string{"full-pcpus-only"}},
	{name: "epyc-a", what: "EPYC, 8 NUMA, split L3", machine: shapes.EPYC7451, policy: "restricted", reserved: "0,48",
		cpuOptions: []string{"prefer-align-cpus-by-uncorecache"}},
	{name: "epyc-b", what: "EPYC, 8 NUMA, split L3", machine: shapes.EPYC7451, policy: "best-effort", scope: "pod", reserved: "0,48"},
	{name: "xeon-c", what: "2-socket Xeon, no SMT", machine: shapes.Xeon6130, policy: "single-numa-node", scope: "pod", reserved: "0"},
	{name: "xeon-d", what: "2-socket Xeon, no SMT", machine: shapes.Xeon6130, policy: "none", reserved: "0"},
	{name: "gpu-a", what: "GPU server, 8 GPUs, 4 NICs", machine: gpuServer, policy: "single-numa-node", scope: "pod", reserved: "0,32,64,96",
		cpuOptions: []string{"full-pcpus-only"}, pinMemory: true, devices: true},
	{name: "gpu-b", what: "GPU server, 8 GPUs, 4 NICs", machine: gpuServer, policy: "restricted", reserved: "0,32,64,96",
		topologyOptions: []string{"prefer-closest-numa-nodes"}, pinMemory: true, devices: true},
	{name: "nps4", what: "EPYC NPS4, 8 NUMA, split L3", machine: shapes.EPYCNPS4, policy: "restricted", reserved: "0,128",
		cpuOptions: []string{"prefer-align-cpus-by-uncorecache"}, pinMemory: true},
	{name: "arm-a", what: "arm64, 4 NUMA", machine: shapes.Kunpeng920, policy: "restricted", reserved: "0",
		topologyOptions: []string{"prefer-closest-numa-nodes"}, pinMemory: true},
	{name: "arm-b", what: "arm64, 4 NUMA", machine: shapes.Kunpeng920, policy: "best-effort", scope: "pod", reserved: "0",
		cpuOptions: []string{"distribute-cpus-across-numa"}},
	{name: "snc2", what: "Xeon SNC2, 4 NUMA", machine: snc2, policy: "single-numa-node", reserved: "0,40",
		cpuOptions: []string{"strict-cpu-reservation"}, pinMemory: true},
	{name: "sparse", what: "4-socket Xeon, NUMA ids 0,2,3", machine: shapes.XeonX7550, policy: "restricted", reserved: "0,32",
		pinMemory: true},
}

// MinNodes is the smallest number of nodes on which the workload runs. The first MinNodes nodes pin
// only CPUs.
const MinNodes = 6

// CheckWorkload returns an error if the workload cannot run on this number of nodes.
func CheckWorkload(count int) error {
	if count < MinNodes || count > MaxNodes {
		return fmt.Errorf("%d nodes: want %d to %d", count, MinNodes, MaxNodes)
	}
	return nil
}

// AllNodes is the smallest number of nodes with every shape.
var AllNodes = len(nodeShapes)

// MaxNodes is the maximum number of nodes. A node and its agent take about 20 MB each.
const MaxNodes = 100

// Nodes returns the given number of nodes. The nodes have the shapes of nodeShapes in their order,
// repeated if necessary. The names of the nodes are always the same.
func Nodes(count int) ([]hollow.Spec, error) {
	if count < 1 || count > MaxNodes {
		return nil, fmt.Errorf("%d nodes: want 1 to %d", count, MaxNodes)
	}
	specs := make([]hollow.Spec, 0, count)
	for i := range count {
		spec, err := nodeShapes[i%len(nodeShapes)].spec(i / len(nodeShapes))
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// nodeName returns the name of the shape's node in a round. Round 0 is the first use of nodeShapes;
// if there are more nodes than shapes, further rounds follow.
func (s *shape) nodeName(round int) string {
	if round == 0 {
		return s.name
	}
	return fmt.Sprintf("%s-%d", s.name, round+1)
}

// spec returns the shape's node in a round, as nodeName counts them.
func (s *shape) spec(round int) (hollow.Spec, error) {
	m, err := topology.Parse(s.machine)
	if err != nil {
		return hollow.Spec{}, fmt.Errorf("node %s: %w", s.name, err)
	}
	spec := hollow.Spec{Name: s.nodeName(round), Machine: s.machine, KubeletConfig: s.kubeletConfig(m)}
	if s.devices {
		spec.Plugins = []hollow.Plugin{
			plugin(gpuResource, "gpu-", m, "03"),
			plugin(nicResource, "hca-", m, "02"),
		}
	}
	return spec, nil
}

// plugin returns a device plugin for the machine's devices of a PCI base class, given as two
// hexadecimal digits: 03 is display, 02 is network. The plugin prefers ascending ids, because
// without a preference the kubelet picks devices at random.
func plugin(resource, prefix string, m *topology.Machine, class string) hollow.Plugin {
	p := hollow.Plugin{Resource: resource, Prefer: true}
	for i := range m.Devices {
		if d := &m.Devices[i]; strings.HasPrefix(d.Class, class) {
			p.Devices = append(p.Devices, hollow.Device{ID: fmt.Sprintf("%s%d", prefix, len(p.Devices)), NUMA: []topology.NUMAID{d.NUMA}})
		}
	}
	return p
}

func (s *shape) kubeletConfig(m *topology.Machine) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: %s
topologyManagerScope: %s
reservedSystemCPUs: %q
`, s.policy, cmp.Or(s.scope, "container"), s.reserved)
	writeOptions(&b, "cpuManagerPolicyOptions", s.cpuOptions)
	writeOptions(&b, "topologyManagerPolicyOptions", s.topologyOptions)
	if s.pinMemory {
		writeReservedMemory(&b, m)
	}
	return b.String()
}

func writeOptions(w io.Writer, field string, options []string) {
	if len(options) == 0 {
		return
	}
	fmt.Fprintf(w, "%s:\n", field)
	for _, o := range options {
		fmt.Fprintf(w, "  %s: \"true\"\n", o)
	}
}

const (
	// reservedMiB is the reserved memory of each NUMA node.
	reservedMiB = 512
	// evictionMiB is memory.available of the kubelet's default evictionHard.
	evictionMiB = 100
)

// writeReservedMemory reserves the same amount on each NUMA node. The kubelet requires that the
// amounts add up to systemReserved plus the eviction threshold
// (pkg/kubelet/cm/memorymanager.validateReservedMemory).
func writeReservedMemory(w io.Writer, m *topology.Machine) {
	fmt.Fprintf(w, "memoryManagerPolicy: Static\nsystemReserved: {memory: %dMi}\nreservedMemory:\n", reservedMiB*len(m.NUMANodes)-evictionMiB)
	for i := range m.NUMANodes {
		fmt.Fprintf(w, "- {numaNode: %d, limits: {memory: %dMi}}\n", m.NUMANodes[i].ID, reservedMiB)
	}
}

func describe(w io.Writer, count int) error {
	rows := make([][]string, count)
	for i := range rows {
		s := &nodeShapes[i%len(nodeShapes)]
		rows[i] = []string{s.nodeName(i / len(nodeShapes)), s.what, strings.Join(s.settings(), ", ")}
	}
	return writeAligned(w, rows)
}

func writeAligned(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(tw, "  %s\n", strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// settings names the Topology Manager policy and the settings that only some of the nodes have.
func (s *shape) settings() []string {
	out := []string{s.policy}
	if s.scope != "" {
		out = append(out, s.scope+" scope")
	}
	if s.pinMemory {
		out = append(out, "memory pinned")
	}
	return append(append(out, s.cpuOptions...), s.topologyOptions...)
}
