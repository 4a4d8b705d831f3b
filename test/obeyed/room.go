package obeyed

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Room says whether a machine with these reserved CPUs could take the pod beside those that have
// not ended there.
func Room(m *topology.Machine, reserved string, there []*corev1.Pod, all Decisions, pod *corev1.Pod) bool {
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil {
		return false
	}
	view, err := placement.ViewOf(m)
	if err != nil {
		return false
	}
	model, err := placement.NewModel(view, placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: reserved})
	if err != nil {
		return false
	}
	state := model.NewState()
	for _, other := range there {
		if held := all[string(other.UID)]; held != nil && !wire.Ended(other) {
			state.Hold(AllocationOf(held))
		}
	}
	v := placement.Admit(state, &ask.Request)
	return v.OK()
}

// AllocationOf is what a decision gives a pod.
func AllocationOf(d *placement.Decision) *placement.PodAllocation {
	p := &placement.PodAllocation{UID: d.UID}
	for i := range d.Containers {
		c := &d.Containers[i]
		p.Containers = append(p.Containers, placement.ContainerAllocation{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Exclusive: c.Exclusive, Memory: c.Memory, Shares: c.Shares})
	}
	return p
}
