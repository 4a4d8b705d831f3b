package survey

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// StateHeld is the Pod.State of a Reservation's resources that no pod uses yet.
const StateHeld = "held"

// addHeld adds stand-in pods to bound, which has the pods of each node: one stand-in for the unused
// part of each Reservation's place. It adds the Holding of each stand-in to held, by UID. The notes
// describe Reservations that cannot be read.
func addHeld(all []*koordinator.Reservation, bound map[string][]*corev1.Pod, held map[string]ledger.Holding) (notes []string) {
	on := map[string][]*koordinator.Reservation{}
	for _, o := range all {
		if name := source.PlaceOf(o); name != "" {
			on[name] = append(on[name], o)
		}
	}
	for name, reservations := range on {
		p := placesOn(reservations, bound[name])
		bound[name] = append(bound[name], p.pods...)
		maps.Copy(held, p.left)
		notes = append(notes, p.wrong...)
	}
	return notes
}

// places describes the unused parts of the Reservations that have places on one node.
type places struct {
	// pods are stand-in pods, one for each place with an unused part.
	pods []*corev1.Pod
	// left has, by UID, the Holding that the node's ledger needs for each of these pods.
	// Holding.Held is the unused part of the Reservation's decision, or nil if the Reservation has
	// no decision.
	left map[string]ledger.Holding
	// wrong describes the Reservations that cannot be read.
	wrong []string
}

// placesOn reads the Reservations with places on one node. `pods` are the pods of that node.
func placesOn(reservations []*koordinator.Reservation, pods []*corev1.Pod) (out places) {
	out.left = map[string]ledger.Holding{}
	for _, o := range reservations {
		r, err := wire.ReadReservation(o)
		if err != nil {
			out.wrong = append(out.wrong, err.Error())
			continue
		}
		var taken []*placement.PodAllocation
		owners := OwnersOn(o, r, pods)
		for _, pod := range owners {
			if p, found, err := wire.ReadPlacement(pod); found && err == nil {
				taken = append(taken, p.Decision.Held())
			}
		}
		rest := r.Rest(owners)
		if rest == nil {
			continue
		}
		out.pods = append(out.pods, wire.Held(rest, r.Node))
		left := ledger.Holding{UID: string(r.UID), More: r.More, Once: r.Once}
		if r.Decision != nil {
			left.Held = placement.Rest(r.Decision.Held(), taken)
		}
		out.left[left.UID] = left
	}
	return out
}

// seeHeld adds the unused resources of a Reservation to the node's ledger. `pod` is the
// Reservation's stand-in.
func (n *NodeState) seeHeld(pod *corev1.Pod) error {
	ask, err := wire.HeldRequest(pod)
	if err == nil {
		h := n.held[string(pod.UID)]
		h.UID, h.Request = string(pod.UID), ask
		n.Account.Hold(h)
	}
	return err
}

// heldName returns the name under which lists of pods show a Reservation.
func heldName(pod *corev1.Pod) string { return "reservation/" + pod.Name }

// nameOf returns the name of a pod for lists. For a stand-in pod, it is the Reservation's name.
func nameOf(pod *corev1.Pod) string {
	if wire.OfReservation(pod) {
		return heldName(pod)
	}
	return keyOf(pod.Namespace, pod.Name)
}

// heldPods describes the unused part of each Reservation's place as a pod. The result is sorted by
// name.
func (s *Survey) heldPods() (out []Pod) {
	for pod := range s.Bound() {
		if wire.OfReservation(pod) {
			out = append(out, s.heldPod(pod))
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (s *Survey) heldPod(pod *corev1.Pod) Pod {
	out := Pod{Name: heldName(pod), UID: string(pod.UID), Node: pod.Spec.NodeName, State: StateHeld}
	n := s.States[pod.Spec.NodeName]
	if n == nil {
		return out
	}
	var cpus topology.CPUSet
	var numa topology.NUMASet
	for _, h := range n.heldBy(pod) {
		if h.Anywhere {
			continue
		}
		numa = numa.With(h.NUMA)
		if set, err := topology.ParseCPUList(h.CPUs); err == nil {
			cpus = cpus.Or(&set)
		}
	}
	out.CPUs, out.NUMANodes = cpus.String(), numa.String()
	return out
}

// Vacancy has the unused resources of a Reservation on one NUMA node.
type Vacancy struct {
	// Reservation is the name of the Reservation.
	Reservation string          `json:"reservation"`
	UID         string          `json:"uid"`
	NUMA        topology.NUMAID `json:"numa"`
	// Anywhere means that NUMA has no meaning: the kubelet chooses the NUMA node when an owner
	// arrives, or these are resources without a NUMA node.
	Anywhere bool `json:"anywhere,omitempty"`
	// CPUs lists the ids of whole CPUs. It is "" if there are none, or if the kubelet chooses them
	// when an owner arrives. Count is their number.
	CPUs  string `json:"cpus,omitempty"`
	Count int    `json:"count,omitempty"`
	// MilliCPU is the amount of shared CPU time, in thousandths of a CPU.
	MilliCPU int64 `json:"milliCPU,omitempty"`
	// Memory has the bytes by resource, including huge pages.
	Memory map[string]uint64 `json:"memory,omitempty"`
	// Devices has the number of devices by resource, or the amount of a provider's resource.
	Devices map[string]int64 `json:"devices,omitempty"`
}

func (h *Vacancy) nothing() bool {
	return h.Count == 0 && h.MilliCPU == 0 && len(h.Memory) == 0 && len(h.Devices) == 0
}

func plus[N int64 | uint64](held *map[string]N, resource string, n N) {
	if n == 0 {
		return
	}
	if *held == nil {
		*held = map[string]N{}
	}
	(*held)[resource] += n
}

// holds returns the unused resources of all Reservations on the node, sorted by Reservation and
// NUMA node.
func (n *NodeState) holds() (out []Vacancy) {
	for _, pod := range n.Bound {
		if wire.OfReservation(pod) {
			out = append(out, n.heldBy(pod)...)
		}
	}
	slices.SortStableFunc(out, func(a, b Vacancy) int { return cmp.Compare(a.Reservation, b.Reservation) })
	return out
}

// heldBy returns the unused resources of the Reservation that the pod stands for, by NUMA node.
// Resources without a NUMA node come last.
func (n *NodeState) heldBy(pod *corev1.Pod) []Vacancy {
	p := n.held[string(pod.UID)].Held
	if p == nil {
		return heldAnywhere(pod)
	}
	machine := n.Machine()
	all := make([]Vacancy, len(machine.NUMANodes)+1)
	at := func(numa topology.NUMASet) *Vacancy {
		i := slices.IndexFunc(machine.NUMANodes, func(m topology.NUMANode) bool { return numa.Has(m.ID) })
		if i < 0 {
			i = len(machine.NUMANodes)
		}
		return &all[i]
	}
	whole := p.CPUs()
	for i := range machine.NUMANodes {
		cpus := whole.And(&machine.NUMANodes[i].CPUs)
		all[i].NUMA, all[i].CPUs, all[i].Count = machine.NUMANodes[i].ID, cpus.String(), cpus.Len()
	}
	all[len(all)-1].Anywhere = true
	for b := range p.Blocks() {
		plus(&at(b.NUMA).Memory, b.Resource, b.Bytes)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		for _, a := range c.Shares {
			at(topology.NewNUMASet(a.NUMA)).MilliCPU += a.MilliCPU
		}
		for _, d := range c.Devices {
			for _, id := range d.IDs {
				plus(&at(n.deviceAt(d.Resource, id)).Devices, d.Resource, 1)
			}
		}
		for _, v := range c.Provided {
			plus(&at(0).Devices, v.Resource, int64(v.Amount))
		}
	}
	all = slices.DeleteFunc(all, func(h Vacancy) bool { return h.nothing() })
	for i := range all {
		all[i].Reservation, all[i].UID = pod.Name, string(pod.UID)
	}
	return all
}

// heldAnywhere returns the unused amounts of a Reservation whose CPUs and NUMA nodes the kubelet
// chooses.
func heldAnywhere(pod *corev1.Pod) []Vacancy {
	h := Vacancy{Reservation: pod.Name, UID: string(pod.UID), Anywhere: true}
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		switch {
		case name == corev1.ResourceCPU && q.MilliValue()%1000 == 0:
			h.Count = int(q.Value())
		case name == corev1.ResourceCPU:
			h.MilliCPU = q.MilliValue()
		case amounts.IsExtended(string(name)):
			plus(&h.Devices, string(name), q.Value())
		default:
			plus(&h.Memory, string(name), uint64(max(0, q.Value())))
		}
	}
	if h.nothing() {
		return nil
	}
	return []Vacancy{h}
}

// deviceAt returns the NUMA nodes of a device. It returns none if the device has none or is not
// reported.
func (n *NodeState) deviceAt(resource, id string) topology.NUMASet {
	if r := n.Report(); r != nil {
		return placement.DeviceAt(r.Snapshot.Devices, resource, id)
	}
	return 0
}

// OwnersOn returns the pods in bound that use a part of the Reservation o, which was read as r.
func OwnersOn(o *koordinator.Reservation, r *wire.Reservation, bound []*corev1.Pod) (out []*corev1.Pod) {
	for _, pod := range bound {
		if Uses(pod, o) && !wire.Ended(pod) && r.Owns(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// Uses reports whether a pod uses the Reservation: the annotation from the pod's Binding names the
// Reservation, as in the scheduler, or the Reservation's status lists the pod. Only the status
// lists the owners that another scheduler has bound. wire.AllocatedAnnotation does not count,
// because any user who may write the pod can write it.
func Uses(pod *corev1.Pod, o *koordinator.Reservation) bool {
	bound, _ := wire.ReadBoundFor(pod)
	return bound.Reservation == o.UID || slices.ContainsFunc(o.Status.CurrentOwners, func(ref corev1.ObjectReference) bool { return ref.UID == pod.UID })
}
