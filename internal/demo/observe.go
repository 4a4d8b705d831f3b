package demo

import (
	"cmp"
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

// holdings are the resources that a node's managers have assigned to a pod, read from their
// checkpoints.
type holdings struct {
	containers []placement.ContainerAllocation
	// devices are the NUMA nodes of the pod's devices.
	devices topology.NUMASet
}

// of returns the resources of one container.
func (h *holdings) of(container string) placement.ContainerAllocation {
	for _, c := range h.containers {
		if c.Name == container {
			return c
		}
	}
	return placement.ContainerAllocation{}
}

// nodeReader reads the assignments of one node's managers.
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

// holdings returns the assignments of the pod's containers.
func (n *nodeReader) holdings(uid string) (*holdings, error) {
	state, err := kubeletstate.Read(os.DirFS(n.dir.Root()))
	if err != nil {
		return nil, err
	}
	snap, err := state.Snapshot()
	if err != nil {
		return nil, err
	}
	h := &holdings{}
	for i := range snap.Pods {
		if snap.Pods[i].UID == uid {
			h.containers = snap.Pods[i].Containers
		}
	}
	if state.Devices == nil {
		return h, nil
	}
	for _, e := range state.Devices.Entries {
		for _, d := range e.Devices {
			if e.PodUID == uid {
				h.devices |= d.NUMA
			}
		}
	}
	return h, nil
}

// together returns the union of the containers' resources.
func together(all *holdings) *places.Holdings {
	h := &places.Holdings{}
	for i := range all.containers {
		h.CPUs = h.CPUs.Or(&all.containers[i].CPUs)
		h.Devices = append(h.Devices, all.containers[i].Devices...)
	}
	return h
}

// spread returns the NUMA nodes of the holdings, and the number of sockets with CPUs of the
// holdings.
func (n *nodeReader) spread(all *holdings) (numa topology.NUMASet, sockets int) {
	cpus := together(all).CPUs
	numa = all.devices
	for _, c := range all.containers {
		for _, b := range c.Memory {
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

// Mispredicted describes how the node's assignments differ from the pod's exact placement. It
// returns "" if they are equal, or if the pod has no exact placement.
func Mispredicted(node *hollow.Process, pod *corev1.Pod) (string, error) {
	all, err := holdingsOf(node, pod)
	if err != nil {
		return "", err
	}
	return judge(pod, all).wrong, nil
}

// Held returns the exclusive CPUs of the pod's containers in its kubelet's checkpoint.
func Held(node *hollow.Process, pod *corev1.Pod) (topology.CPUSet, error) {
	all, err := holdingsOf(node, pod)
	if err != nil {
		return topology.CPUSet{}, err
	}
	return together(all).CPUs, nil
}

func holdingsOf(node *hollow.Process, pod *corev1.Pod) (*holdings, error) {
	n, err := newNodeReader(node)
	if err != nil {
		return nil, err
	}
	return n.holdings(string(pod.UID))
}

// prediction compares a pod's annotation with the assignments of its containers.
type prediction struct {
	made, exact bool
	// wrong describes the difference, or is "".
	wrong string
}

// judge compares the decision in the pod's annotation with the holdings.
func judge(pod *corev1.Pod, all *holdings) prediction {
	p, found, err := wire.ReadPlacement(pod)
	if err != nil {
		return prediction{made: found, wrong: err.Error()}
	}
	if !found {
		return prediction{}
	}
	out := prediction{made: true, exact: p.Certainty == wire.Exact}
	if !out.exact {
		return out // an inexact decision may have other CPUs; the pod was admitted
	}
	for i := range p.Decision.Containers {
		c := &p.Decision.Containers[i]
		if out.wrong = differ(c, all.of(c.Name)); out.wrong != "" {
			return out
		}
	}
	return out
}

// differ describes how the assignment contradicts the container's decision, or returns "".
func differ(c *placement.ContainerDecision, h placement.ContainerAllocation) string {
	switch {
	case c.CPUs != h.CPUs:
		return fmt.Sprintf("container %s: CPUs %s, predicted %s", c.Name, orShared(h.CPUs), orShared(c.CPUs))
	case !slices.EqualFunc(c.Devices, h.Devices, func(a, b placement.DeviceAllocation) bool {
		return a.Resource == b.Resource && slices.Equal(a.IDs, b.IDs)
	}):
		return fmt.Sprintf("container %s: devices %v, predicted %v", c.Name, h.Devices, c.Devices)
	case c.Kind == placement.Init: // the kubelet freed its memory when later containers started
		return ""
	case !slices.Equal(sortedBlocks(c.Memory), sortedBlocks(h.Memory)):
		return fmt.Sprintf("container %s: memory %v, predicted %v", c.Name, h.Memory, c.Memory)
	}
	return ""
}

func orShared(s topology.CPUSet) string {
	if s.IsEmpty() {
		return "(shared)"
	}
	return s.String()
}

// sortedBlocks orders blocks by resource, then by nodes. It leaves out blocks of size 0.
func sortedBlocks(blocks []placement.MemoryBlock) []placement.MemoryBlock {
	out := slices.DeleteFunc(slices.Clone(blocks), func(b placement.MemoryBlock) bool { return b.Bytes == 0 })
	slices.SortFunc(out, func(a, b placement.MemoryBlock) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.NUMA, b.NUMA))
	})
	return out
}
