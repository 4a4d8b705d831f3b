package demo

import (
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/demo/places"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// holding is what a node's managers have given to one container, read from their checkpoints.
type holding struct {
	cpus    topology.CPUSet
	memory  []placement.MemoryBlock
	devices []placement.DeviceAllocation
	// deviceNUMA is the union of the nodes of the devices.
	deviceNUMA topology.NUMASet
}

// nodeReader reads what the managers of one node have given out.
type nodeReader struct {
	dir     hollow.Dir
	machine *topology.Machine
}

func newNodeReader(p *hollow.Process) (*nodeReader, error) {
	spec, err := p.Dir.ReadSpec()
	if err != nil {
		return nil, err
	}
	m, err := topology.Parse(spec.Machine)
	return &nodeReader{p.Dir, m}, err
}

// holdings returns what the pod's containers hold, by container name.
func (n *nodeReader) holdings(uid string) (map[string]*holding, error) {
	state, err := kubeletstate.Read(os.DirFS(n.dir.Root()))
	if err != nil {
		return nil, err
	}
	all := map[string]*holding{}
	of := func(container string) *holding {
		if all[container] == nil {
			all[container] = &holding{}
		}
		return all[container]
	}
	if state.CPU != nil {
		for _, e := range state.CPU.Entries {
			if e.PodUID == uid {
				of(e.Container).cpus = e.CPUs
			}
		}
	}
	if state.Memory != nil {
		for _, e := range state.Memory.Entries {
			if e.PodUID == uid {
				of(e.Container).memory = e.Blocks
			}
		}
	}
	if state.Devices != nil {
		for _, e := range state.Devices.Entries {
			if e.PodUID == uid {
				of(e.Container).addDevices(&e)
			}
		}
	}
	return all, nil
}

func (h *holding) addDevices(e *kubeletstate.DeviceEntry) {
	a := placement.DeviceAllocation{Resource: e.Resource}
	for _, d := range e.Devices {
		a.IDs = append(a.IDs, d.ID)
		h.deviceNUMA |= d.NUMA
	}
	h.devices = append(h.devices, a)
}

// together is what the containers hold together.
func together(all map[string]*holding) *places.Held {
	h := &places.Held{}
	for _, c := range all {
		h.CPUs = h.CPUs.Or(&c.cpus)
		h.Devices = append(h.Devices, c.devices...)
	}
	return h
}

// spread returns the NUMA nodes and the number of sockets that the holdings touch.
func (n *nodeReader) spread(all map[string]*holding) (numa topology.NUMASet, sockets int) {
	var cpus topology.CPUSet
	for _, h := range all {
		cpus = cpus.Or(&h.cpus)
		numa |= h.deviceNUMA
		for _, b := range h.memory {
			numa |= b.NUMA
		}
	}
	for i := range n.machine.NUMANodes {
		if node := &n.machine.NUMANodes[i]; node.CPUs.Intersects(&cpus) {
			numa = numa.With(node.ID)
		}
	}
	for i := range n.machine.Packages {
		if n.machine.Packages[i].CPUs.Intersects(&cpus) {
			sockets++
		}
	}
	return numa, sockets
}

// Mispredicted says what of an exact placement that the pod carries differs from what its node has
// given to its containers; "" where nothing does, or nothing exact was said.
func Mispredicted(node *hollow.Process, pod *corev1.Pod) (string, error) {
	all, err := holdingsOf(node, pod)
	if err != nil {
		return "", err
	}
	return judge(pod, all).wrong, nil
}

// Held returns the CPUs that the pod's containers have to themselves by its kubelet's checkpoint.
func Held(node *hollow.Process, pod *corev1.Pod) (topology.CPUSet, error) {
	all, err := holdingsOf(node, pod)
	if err != nil {
		return topology.CPUSet{}, err
	}
	return together(all).CPUs, nil
}

func holdingsOf(node *hollow.Process, pod *corev1.Pod) (map[string]*holding, error) {
	n, err := newNodeReader(node)
	if err != nil {
		return nil, err
	}
	return n.holdings(string(pod.UID))
}

// prediction is how a pod's annotation compares with what its containers hold.
type prediction struct {
	made, exact bool
	// wrong says what differs; "" when nothing does.
	wrong string
}

// judge compares the decision that the pod carries with the holdings.
func judge(pod *corev1.Pod, all map[string]*holding) prediction {
	p, found, err := wire.ReadPlacement(pod)
	if err != nil {
		return prediction{made: found, wrong: err.Error()}
	}
	if !found {
		return prediction{}
	}
	out := prediction{made: true, exact: p.Certainty == wire.Exact}
	if !out.exact {
		return out // CPUs may differ, and the pod was admitted
	}
	for i := range p.Decision.Containers {
		c := &p.Decision.Containers[i]
		h := all[c.Name]
		if h == nil {
			h = &holding{}
		}
		if out.wrong = differ(c, h); out.wrong != "" {
			return out
		}
	}
	return out
}

// differ says what of the container's decision the holding contradicts, or "".
func differ(c *placement.ContainerDecision, h *holding) string {
	switch {
	case c.CPUs != h.cpus:
		return fmt.Sprintf("container %s: CPUs %s, predicted %s", c.Name, orShared(h.cpus), orShared(c.CPUs))
	case !slices.EqualFunc(c.Devices, h.devices, func(a, b placement.DeviceAllocation) bool {
		return a.Resource == b.Resource && slices.Equal(a.IDs, b.IDs)
	}):
		return fmt.Sprintf("container %s: devices %v, predicted %v", c.Name, h.devices, c.Devices)
	case c.Kind == placement.Init: // its memory was freed when those after it started
		return ""
	case !slices.Equal(sortedBlocks(c.Memory), sortedBlocks(h.memory)):
		return fmt.Sprintf("container %s: memory %v, predicted %v", c.Name, h.memory, c.Memory)
	}
	return ""
}

func orShared(s topology.CPUSet) string {
	if s.IsEmpty() {
		return "(shared)"
	}
	return s.String()
}

// sortedBlocks orders blocks by resource, then nodes; blocks of no size are left out, as they hold
// nothing.
func sortedBlocks(blocks []placement.MemoryBlock) []placement.MemoryBlock {
	out := slices.DeleteFunc(slices.Clone(blocks), func(b placement.MemoryBlock) bool { return b.Bytes == 0 })
	slices.SortFunc(out, func(a, b placement.MemoryBlock) int {
		if a.Resource != b.Resource {
			if a.Resource < b.Resource {
				return -1
			}
			return 1
		}
		return int(int64(a.NUMA) - int64(b.NUMA))
	})
	return out
}
