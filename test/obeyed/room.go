package obeyed

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Place describes a node.
type Place struct {
	Machine *topology.Machine
	// Reserved are the CPUs that are never exclusive.
	Reserved string
	// Pools are the devices that its agent offers.
	Pools []placement.DevicePool
}

// Room reports if a node could admit the pod in addition to its pods that have not ended.
func Room(on Place, there []*corev1.Pod, all Decisions, pod *corev1.Pod) bool {
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil {
		return false
	}
	view, err := placement.ViewOf(on.Machine)
	if err != nil {
		return false
	}
	model, err := placement.NewModel(view, placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: on.Reserved,
		Devices: placement.DevicesOf(on.Machine, on.Pools)})
	if err != nil {
		return false
	}
	state := model.NewState()
	for _, p := range on.Pools {
		state.SetPool(p)
	}
	for _, other := range there {
		if held := all[string(other.UID)]; held != nil && !wire.Ended(other) {
			state.Hold(AllocationOf(held))
		}
	}
	v := placement.Admit(state, &ask.Request)
	return v.OK()
}

// AllocationOf returns a decision's assignment to a pod.
func AllocationOf(d *placement.Decision) *placement.PodAllocation {
	p := &placement.PodAllocation{UID: d.UID}
	for i := range d.Containers {
		c := &d.Containers[i]
		p.Containers = append(p.Containers, placement.ContainerAllocation{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Exclusive: c.Exclusive, Memory: c.Memory, Shares: c.Shares, Devices: c.Devices})
	}
	return p
}
