package demo

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// assigned returns the resources that the managers of the node's kubelet have assigned to the pod,
// from their checkpoints.
func assigned(node *hollow.Process, pod *corev1.Pod) (*placement.PodAllocation, error) {
	state, err := kubeletstate.Read(os.DirFS(node.Dir.Root()))
	if err != nil {
		return nil, err
	}
	snap, err := state.Snapshot()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(snap.Pods, func(p placement.PodAllocation) bool { return p.UID == string(pod.UID) })
	if i < 0 {
		return &placement.PodAllocation{}, nil
	}
	return &snap.Pods[i], nil
}

// Mispredicted describes how the node's assignments differ from the pod's exact placement. It
// returns "" if they are equal, or if the pod has no exact placement.
func Mispredicted(node *hollow.Process, pod *corev1.Pod) (string, error) {
	held, err := assigned(node, pod)
	if err != nil {
		return "", err
	}
	return judge(pod, held).wrong, nil
}

// Held returns the exclusive CPUs of the pod in its kubelet's checkpoint.
func Held(node *hollow.Process, pod *corev1.Pod) (topology.CPUSet, error) {
	held, err := assigned(node, pod)
	if err != nil {
		return topology.CPUSet{}, err
	}
	return held.CPUs(), nil
}

// prediction is the result of comparing a pod's decision with the assignments of its containers.
// made means that the pod has a decision, and exact that the decision is marked exact.
type prediction struct {
	made, exact bool
	// wrong describes the difference, or is "".
	wrong string
}

// judge compares the decision in the pod's annotation with the resources that the pod holds.
func judge(pod *corev1.Pod, held *placement.PodAllocation) prediction {
	p, found, err := wire.ReadPlacement(pod)
	if err != nil {
		return prediction{made: found, wrong: err.Error()}
	}
	if !found {
		return prediction{}
	}
	out := prediction{made: true, exact: p.Certainty == wire.Exact}
	if !out.exact {
		return out // an inexact decision promises only that the kubelet admits the pod
	}
	for i := range p.Decision.Containers {
		c, has := &p.Decision.Containers[i], placement.ContainerAllocation{}
		if k := slices.IndexFunc(held.Containers, func(h placement.ContainerAllocation) bool { return h.Name == c.Name }); k >= 0 {
			has = held.Containers[k]
		}
		if out.wrong = differ(c, has); out.wrong != "" {
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

// sortedBlocks orders blocks by resource, and then by NUMA nodes. It omits blocks of size 0.
func sortedBlocks(blocks []placement.MemoryBlock) []placement.MemoryBlock {
	out := slices.DeleteFunc(slices.Clone(blocks), func(b placement.MemoryBlock) bool { return b.Bytes == 0 })
	slices.SortFunc(out, func(a, b placement.MemoryBlock) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.NUMA, b.NUMA))
	})
	return out
}
