package lab

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Overlay gives each node of a list a machine with NUMA nodes and a kubelet, because no public list
// has the NUMA nodes of its machines.
type Overlay struct {
	// Packages and PerPackage are the NUMA nodes of a machine that is large enough: each has at
	// least smallestNUMA CPUs. Smaller machines have half as many, or one.
	Packages, PerPackage int
	// Given is the machine of each node; if it is nil, the machine is made from the node's amounts.
	// Pods get no more of the machine than the node's line in the list has.
	Given *topology.Machine
	// GPUs are the numbers of GPUs of a Given machine's NUMA nodes, in order; nil divides the GPUs
	// of the node's line evenly among NUMA nodes with CPUs.
	GPUs []int
	// Policy of the Topology Manager, its Scope, and the options of both managers, as in a
	// KubeletConfiguration.
	Policy, Scope             string
	PolicyOptions, CPUOptions map[string]string
	// Reserved is the list of CPUs that are kept for the system; "": the first core.
	Reserved string
	// Obey means that Berth decides on the node, by that policy.
	Obey bool
}

// Overlays has the overlay of each node of a list.
type Overlays struct {
	// Models has overlays by the model of the node.
	Models map[string]*Overlay
	// Rest is the overlay of nodes of other models; with nil they are an error.
	Rest *Overlay
}

// OverlayError names the field of an overlay that does not fit a node of a list.
type OverlayError struct {
	// Node is the node's name, Model its model.
	Node, Model string
	// Field is machine, shape, gpus, or a field of a KubeletConfiguration; "" for none.
	Field, Value, Want string
}

func (e *OverlayError) Error() string {
	field := ""
	if e.Field != "" {
		field = e.Field + ": "
	}
	return fmt.Sprintf("node %s: %s%.80s: want %s", e.Node, field, e.Value, e.Want)
}

// of returns the overlay of the node.
func (o *Overlays) of(n *trace.Node) (*Overlay, error) {
	if found := o.Models[n.GPUModel]; found != nil {
		return found, nil
	}
	if o.Rest == nil {
		return nil, overlayError(n, "", fmt.Sprintf("model %q", n.GPUModel), "a default, or a machine for this model")
	}
	return o.Rest, nil
}

func overlayError(n *trace.Node, field, value, want string) error {
	return &OverlayError{n.Name, n.GPUModel, field, value, want}
}

// smallestNUMA is the smallest number of CPUs of a NUMA node.
const smallestNUMA = 16

// overlays are the shapes of machines, by name.
var overlays = []struct {
	name                 string
	packages, perPackage int
}{
	{"sockets", 2, 1},  // two packages of one NUMA node: most servers with eight GPUs
	{"quarters", 2, 2}, // two packages of two: sub-NUMA clustering, NPS2
}

var overlayPolicies = []string{"restricted", "single-numa-node", "best-effort"}

// OverlayPolicies are the policies of the Topology Manager that an overlay may have.
func OverlayPolicies() []string { return slices.Clone(overlayPolicies) }

// OverlayShapes are the names of the shapes of machines.
func OverlayShapes() (names []string) {
	for _, o := range overlays {
		names = append(names, o.name)
	}
	return names
}

// OverlayShape returns the number of packages of a shape, and of the NUMA nodes in each.
func OverlayShape(name string) (packages, perPackage int, ok bool) {
	for _, o := range overlays {
		if o.name == name {
			return o.packages, o.perPackage, true
		}
	}
	return 0, 0, false
}

// obeys is the suffix of an overlay's name if Berth decides on its nodes.
const obeys = "/obey"

// OverlayNames are the names that ParseOverlay knows; names with authority kubelet come first.
func OverlayNames() (names []string) {
	for _, ending := range []string{"", obeys} {
		for _, o := range overlays {
			for _, policy := range overlayPolicies {
				names = append(names, o.name+"/"+policy+ending)
			}
		}
	}
	return names
}

// Decides reports whether kubelets decide on the nodes of an overlay, by its name.
func Decides(overlay string) bool { return !strings.HasSuffix(overlay, obeys) }

// ParseOverlay reads an overlay: SHAPE/POLICY, or SHAPE/POLICY/obey.
func ParseOverlay(text string) (Overlay, error) {
	shape, policy, _ := strings.Cut(strings.TrimSuffix(text, obeys), "/")
	if packages, per, ok := OverlayShape(shape); ok && slices.Contains(overlayPolicies, policy) {
		return Overlay{Packages: packages, PerPackage: per, Policy: policy, Obey: !Decides(text)}, nil
	}
	return Overlay{}, fmt.Errorf("%.40q: want %s%s", text, strings.Join(OverlayNames(), ", "), suggest.DidYouMean(text, OverlayNames()))
}

// The first core and this memory of NUMA node 0 are reserved for the system.
const (
	threads     = 2
	reservedMiB = 1024
)

// Machine returns the machine of a node as a string for topology.Parse, and its number of NUMA
// nodes.
func (o *Overlay) Machine(n *trace.Node) (text string, count int, err error) {
	packages, per := o.Packages, o.PerPackage
	cpus := int(n.MilliCPU / trace.Thousandths)
	if cpus < 2*threads || n.MilliCPU%(threads*trace.Thousandths) != 0 || n.MiB < 2*reservedMiB {
		return "", 0, overlayError(n, "", amountsText(n), fmt.Sprintf("an even number of CPUs from %d on, and at least %d MiB", 2*threads, 2*reservedMiB))
	}
	for packages*per > 1 && (cpus/(packages*per) < smallestNUMA || cpus%(packages*per*threads) != 0) {
		if per > 1 {
			per /= 2
		} else {
			packages /= 2
		}
	}
	count = packages * per
	cores := cpus / threads / count
	text = fmt.Sprintf("package:%d numa:%d core:%d pu:%d mem:%dMi dist:10,21", packages, per, cores, threads, n.MiB/int64(count))
	if per > 1 {
		text = strings.Replace(text, "dist:10,21", "dist:10,12,21", 1)
	}
	if count == 1 {
		text = strings.Replace(text, "dist:10,21", "dist:10", 1)
	}
	return text, count, nil
}

func amountsText(n *trace.Node) string {
	return fmt.Sprintf("%d thousandths of a CPU, %d MiB", n.MilliCPU, n.MiB)
}

// machine returns the machine of the node.
func (o *Overlay) machine(n *trace.Node) (*topology.Machine, error) {
	if o.Given != nil {
		return o.Given, o.holds(n)
	}
	text, _, err := o.Machine(n)
	if err != nil {
		return nil, err
	}
	m, err := topology.Parse(text)
	if err != nil {
		return nil, overlayError(n, "shape", text, err.Error())
	}
	return m, nil
}

// holds checks that the Given machine has all amounts of the node's line.
func (o *Overlay) holds(n *trace.Node) error {
	cpus, bytes := int64(0), uint64(0)
	for i := range o.Given.NUMANodes {
		cpus, bytes = cpus+int64(o.Given.NUMANodes[i].CPUs.Len()), bytes+o.Given.NUMANodes[i].MemoryBytes
	}
	switch {
	case cpus*trace.Thousandths < n.MilliCPU:
		return overlayError(n, "machine", fmt.Sprintf("%d CPUs", cpus), fmt.Sprintf("at least the %d thousandths of a CPU that its line in the list says", n.MilliCPU))
	case bytes>>20 < uint64(n.MiB):
		return overlayError(n, "machine", fmt.Sprintf("%d MiB", bytes>>20), fmt.Sprintf("at least the %d MiB that its line in the list says", n.MiB))
	case n.MiB < 2*reservedMiB:
		return overlayError(n, "machine", amountsText(n), fmt.Sprintf("at least %d MiB in its line in the list", 2*reservedMiB))
	}
	return nil
}

// gpusAt returns the NUMA node, by position, of each GPU of the node.
func (o *Overlay) gpusAt(m *topology.Machine, n *trace.Node) (at []int, err error) {
	if o.GPUs == nil {
		var with []int
		for i := range m.NUMANodes {
			if !m.NUMANodes[i].CPUs.IsEmpty() {
				with = append(with, i)
			}
		}
		for gpu := range n.GPUs {
			at = append(at, with[gpu*len(with)/n.GPUs])
		}
		return at, nil
	}
	if len(o.GPUs) != len(m.NUMANodes) {
		return nil, overlayError(n, "gpus", fmt.Sprint(o.GPUs), fmt.Sprintf("a number for each of %d NUMA nodes", len(m.NUMANodes)))
	}
	for i, count := range o.GPUs {
		at = append(at, slices.Repeat([]int{i}, count)...)
	}
	if len(at) != n.GPUs {
		return nil, overlayError(n, "gpus", fmt.Sprintf("%v, %d in all", o.GPUs, len(at)), fmt.Sprintf("the %d that its line in the list says", n.GPUs))
	}
	return at, nil
}

// below has the machine and the kubelet of a node.
type below struct {
	machine *topology.Machine
	model   *placement.Model
	empty   *placement.State
	// reserved are the thousandths of CPUs that are reserved for the system.
	reserved int64
}

// belowOf makes the machine and the kubelet of a node.
func (o *Overlay) belowOf(n *trace.Node) (k *below, err error) {
	k = &below{}
	if k.machine, err = o.machine(n); err != nil {
		return nil, err
	}
	at, err := o.gpusAt(k.machine, n)
	if err != nil {
		return nil, err
	}
	pool := placement.DevicePool{Resource: gpuResource, Preference: placement.SortedPreference, Decided: o.Obey}
	for gpu, numa := range at {
		pool.Devices = append(pool.Devices, placement.Device{ID: gpuID(gpu), HasTopology: true, NUMA: topology.NewNUMASet(k.machine.NUMANodes[numa].ID)})
	}
	if k.model, err = o.model(n, k.machine, pool); err != nil {
		return nil, err
	}
	k.empty = k.model.NewState()
	k.empty.SetPool(pool)
	return k, o.reserve(k, n)
}

// NewNUMA returns a maker of empty nodes with overlays. The error names a node that cannot have a
// machine; an *OverlayError also names the field. The pods that are put there must be Whole.
func NewNUMA(nodes []trace.Node, o Overlays) (func([]trace.Node, bool) simulate.Cluster, error) {
	type key struct {
		cpu, mib int64
		gpus     int
		overlay  *Overlay
	}
	known, all := map[key]*below{}, make([]simulate.StartNode, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		overlay, err := o.of(n)
		if err != nil {
			return nil, err
		}
		a := key{n.MilliCPU, n.MiB, n.GPUs, overlay}
		if known[a] == nil {
			if known[a], err = overlay.belowOf(n); err != nil {
				return nil, err
			}
		}
		k := known[a]
		all[i] = simulate.StartNode{Node: *n, Machine: k.machine, Model: k.model, State: k.empty}
		all[i].MilliCPU, all[i].MiB = n.MilliCPU-k.reserved, n.MiB-reservedMiB
	}
	start, err := simulate.NewStart(all)
	if err != nil {
		return nil, err
	}
	usable := start.Nodes()
	return func(_ []trace.Node, blind bool) simulate.Cluster { return start.Ground(usable, blind) }, nil
}

// model compiles a node's machine.
func (o *Overlay) model(n *trace.Node, machine *topology.Machine, pool placement.DevicePool) (*placement.Model, error) {
	view, err := placement.ViewOf(machine)
	if err != nil {
		return nil, overlayError(n, "machine", machine.String(), err.Error())
	}
	m, err := placement.NewModel(view, o.config(machine, pool))
	var config *placement.ConfigError
	if errors.As(err, &config) {
		return nil, overlayError(n, config.Field, strconv.Quote(config.Value), config.Want)
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	return m, nil
}

// reserve sets how many CPUs of the node are reserved for the system: at most all but one.
func (o *Overlay) reserve(k *below, n *trace.Node) error {
	kept, err := topology.ParseCPUList(o.reserved(k.machine))
	k.reserved = int64(kept.Len()) * trace.Thousandths
	if err != nil || k.reserved == 0 || n.MilliCPU-k.reserved < trace.Thousandths {
		return overlayError(n, "reservedSystemCPUs", strconv.Quote(o.Reserved), fmt.Sprintf("fewer CPUs than the %d thousandths that its line in the list says, and at least one", n.MilliCPU))
	}
	return nil
}

func (o *Overlay) reserved(m *topology.Machine) string {
	return cmp.Or(o.Reserved, m.Cores[0].CPUs.String())
}

// config returns the configuration of the node's kubelet, or of Berth if it decides.
func (o *Overlay) config(m *topology.Machine, pool placement.DevicePool) placement.Config {
	cfg := placement.Config{ReservedSystemCPUs: o.reserved(m), TopologyManagerPolicy: o.Policy, TopologyManagerScope: o.Scope,
		TopologyManagerPolicyOptions: o.PolicyOptions, CPUManagerPolicyOptions: o.CPUOptions, GuardDefects: true}
	if o.Obey {
		cfg.Authority, cfg.Devices = placement.AuthorityBerth, placement.DevicesOf(m, []placement.DevicePool{pool})
		return cfg
	}
	cfg.CPUManagerPolicy, cfg.MemoryManagerPolicy = "static", "Static"
	cfg.ReservedMemory = []placement.ReservedMemory{{NUMA: m.NUMANodes[0].ID, Limits: map[string]uint64{"memory": reservedMiB << 20}}}
	return cfg
}

// gpuResource is the name of the GPUs.
const gpuResource = "nvidia.com/gpu"

// gpuID returns the name of a GPU of an overlay's machine. The names sort like the GPUs.
func gpuID(gpu int) string { return fmt.Sprintf("%02d", gpu) }
