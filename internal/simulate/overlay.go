package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Overlay lays a machine with NUMA nodes, and a kubelet, below each node of a list: no public list
// says what NUMA nodes its machines have.
type Overlay struct {
	// Packages and PerPackage are the NUMA nodes of a machine that is large enough. A machine is
	// large enough for as many as have smallestNUMA CPUs each; others have half as many, or one.
	Packages, PerPackage int
	// Policy of the Topology Manager.
	Policy string
	// Obey says that Berth decides on the node, by that policy, and that the node obeys.
	Obey bool
}

// smallestNUMA is how many CPUs a NUMA node has at the least.
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

// obeys is the ending of an overlay with nodes that obey.
const obeys = "/obey"

// OverlayNames are the words that ParseOverlay knows: first those with kubelets that decide.
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

// Decides says whether kubelets decide on the nodes of an overlay, by its name.
func Decides(overlay string) bool { return !strings.HasSuffix(overlay, obeys) }

// ParseOverlay reads an overlay: SHAPE/POLICY, or SHAPE/POLICY/obey.
func ParseOverlay(text string) (Overlay, error) {
	shape, policy, _ := strings.Cut(strings.TrimSuffix(text, obeys), "/")
	for _, o := range overlays {
		if o.name == shape && slices.Contains(overlayPolicies, policy) {
			return Overlay{o.packages, o.perPackage, policy, !Decides(text)}, nil
		}
	}
	return Overlay{}, fmt.Errorf("%.40q: want %s%s", text, strings.Join(OverlayNames(), ", "), suggest.DidYouMean(text, OverlayNames()))
}

// Reserved for the system, on NUMA node 0: the first core and some memory.
const (
	threads     = 2
	reservedMiB = 1024
)

// Whole is the pods as a kubelet pins them: CPUs rounded up to whole ones, whole GPUs, Guaranteed.
func Whole(pods []trace.Pod) []trace.Pod {
	out := slices.Clone(pods)
	for i := range out {
		p := &out[i]
		p.MilliCPU = max(1, (p.MilliCPU+trace.Thousandths-1)/trace.Thousandths) * trace.Thousandths
		if p.GPUs > 0 {
			p.MilliGPU = trace.Thousandths
		}
	}
	return out
}

// numaKind is what nodes have in common that have the same amounts.
type numaKind struct {
	machine *topology.Machine
	model   *placement.Model
	empty   *placement.State
	gpuAt   []int // by GPU: the position of its NUMA node; -1: it has none
	id      int
}

// Machine writes the machine below a node as a string that topology.Parse reads, and says how many
// NUMA nodes it has.
func (o *Overlay) Machine(n *trace.Node) (text string, count int, err error) {
	packages, per := o.Packages, o.PerPackage
	cpus := int(n.MilliCPU / trace.Thousandths)
	if cpus < 2*threads || n.MilliCPU%(threads*trace.Thousandths) != 0 || n.MiB < 2*reservedMiB {
		return "", 0, fmt.Errorf("node %s: %d thousandths of a CPU, %d MiB: want an even number of CPUs from %d on, and at least %d MiB",
			n.Name, n.MilliCPU, n.MiB, 2*threads, 2*reservedMiB)
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

// kindOf makes the machine and the kubelet of a node.
func (o *Overlay) kindOf(n *trace.Node) (*numaKind, error) {
	text, count, err := o.Machine(n)
	if err != nil {
		return nil, err
	}
	k := &numaKind{}
	if k.machine, err = topology.Parse(text); err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	view, err := placement.ViewOf(k.machine)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	pool := placement.DevicePool{Resource: gpuResource, Preference: placement.SortedPreference, Decided: o.Obey}
	for gpu := range n.GPUs {
		at := gpu * count / n.GPUs
		k.gpuAt = append(k.gpuAt, at)
		pool.Devices = append(pool.Devices, placement.Device{ID: gpuID(gpu), HasTopology: true, NUMA: topology.NewNUMASet(k.machine.NUMANodes[at].ID)})
	}
	cfg := o.config(k.machine, pool)
	if k.model, err = placement.NewModel(view, cfg); err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	k.empty = k.model.NewState()
	k.empty.SetPool(pool)
	return k, nil
}

// config is that of the node's kubelet, or what Berth goes by where it decides.
func (o *Overlay) config(m *topology.Machine, pool placement.DevicePool) placement.Config {
	first := m.Cores[0].CPUs
	cfg := placement.Config{ReservedSystemCPUs: first.String(), TopologyManagerPolicy: o.Policy, GuardDefects: true}
	if o.Obey {
		cfg.Authority, cfg.Devices = placement.AuthorityBerth, placement.DevicesOf(m, []placement.DevicePool{pool})
		return cfg
	}
	cfg.CPUManagerPolicy, cfg.MemoryManagerPolicy = "static", "Static"
	cfg.ReservedMemory = []placement.ReservedMemory{{NUMA: m.NUMANodes[0].ID, Limits: map[string]uint64{"memory": reservedMiB << 20}}}
	return cfg
}

// gpuID is the name of a GPU of a machine of an overlay: the order of names is that of the GPUs.
func gpuID(gpu int) string { return fmt.Sprintf("%02d", gpu) }

// gpuIDs says which GPU each name is of.
func gpuIDs() map[string]int {
	out := map[string]int{}
	for gpu := range trace.MaxGPUs {
		out[gpuID(gpu)] = gpu
	}
	return out
}
