package survey

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/stranded"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Machine returns a node's hardware, or an empty Machine if the hardware is not known.
func (s *Survey) Machine(name string) *topology.Machine {
	if n := s.States[name]; n != nil {
		return n.Machine()
	}
	return new(topology.Machine)
}

// Berths returns the CPUs, memory and devices of a node, and the pods that have them, including
// pods in flight (NodeState.Snapshot). The error explains why nothing is known about the node.
func (s *Survey) Berths(name string) (*machineview.Berths, error) {
	n := s.States[name]
	if n == nil {
		return nil, fmt.Errorf("node %s: %s", name, s.missing(name).Message)
	}
	if n.Account == nil {
		return nil, fmt.Errorf("node %s: %s", name, n.Trouble.Message)
	}
	out := &machineview.Berths{
		Title: name, Snapshot: n.Snapshot(),
		Pinning: n.Spec().PinsCPUs(), Reserved: n.Reading.Kind.Model.ReservedCPUs(),
	}
	if n.coarse() {
		out.Snapshot.Pods = withoutCPUs(out.Snapshot.Pods)
	}
	sum := n.summary(s.Now)
	out.Facts = fmt.Sprintf("policy %s, scope %s, CPU manager %s, memory manager %s", sum.Policy, sum.Scope, sum.CPUManager, sum.MemoryManager)
	if state := stranded.Decided(n.Reading.Kind.Model, &out.Snapshot); state != nil {
		out.Facts = fmt.Sprintf("authority berth, default policy %s, default scope %s", sum.Policy, sum.Scope)
		out.Free = map[topology.NUMAID]int{}
		for i := range n.Machine().NUMANodes {
			out.Free[n.Machine().NUMANodes[i].ID] = state.FreeCPUsOn(&n.Machine().NUMANodes[i])
		}
	}
	if n.coarse() {
		out.Facts += "; the report has only amounts, so the CPUs of pods are not known"
	}
	if n.Trouble != nil {
		out.Facts += "; " + n.Trouble.Message
	}
	for _, pod := range n.Bound {
		out.Tenants = append(out.Tenants, machineview.Tenant{UID: string(pod.UID), Name: nameOf(pod), Note: n.note(pod), Held: wire.OfReservation(pod)})
	}
	return out, nil
}

// withoutCPUs returns the pods without their CPUs, so that the drawing does not show these CPUs.
func withoutCPUs(pods []placement.PodAllocation) []placement.PodAllocation {
	pods = slices.Clone(pods)
	for i := range pods {
		if w := pods[i].Whole; w != nil {
			pods[i].Whole = &placement.Whole{Memory: w.Memory}
		}
		pods[i].Containers = slices.Clone(pods[i].Containers)
		for j := range pods[i].Containers {
			pods[i].Containers[j].CPUs = topology.CPUSet{}
		}
	}
	return pods
}

// note returns a remark about a pod that is bound to the node. It returns "" if the node's report
// shows that the pod runs, and no resize is unfinished.
func (n *NodeState) note(pod *corev1.Pod) string {
	_, state := n.Reported(string(pod.UID))
	switch {
	case wire.OfReservation(pod):
		return StateHeld
	case pod.DeletionTimestamp != nil:
		return "ending"
	case wire.Ended(pod):
		return StateEnded
	case state == StateAbsent:
		return StateInFlight
	case state != StateAdmitted:
		return state
	}
	if r := n.resizing(pod); r != nil {
		return "resize " + r.State
	}
	return ""
}
