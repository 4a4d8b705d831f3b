package main

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

// offered are the devices of a machine by resource, as the i-th of offers says.
func offered(m *topology.Machine, i int) map[string][]*topology.Device {
	out := map[string][]*topology.Device{}
	for j := range m.Devices {
		d := &m.Devices[j]
		switch {
		case d.Kind() == topology.GPU:
			out[gpus] = append(out[gpus], d)
		case i == 0 && d.Physical == "":
			out[cards] = append(out[cards], d)
		case i == 1 && d.Physical != "":
			out[vfs] = append(out[vfs], d)
		}
	}
	return out
}

// fits says whether the i-th node that obeys could take the pod beside those that are bound there.
func (d *driver) fits(i int, there []*corev1.Pod, pod *corev1.Pod) bool {
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil || asksElsewhere(&ask.Request, offered(d.Machines[specs()[i].Name], i)) {
		return false
	}
	var held []*placement.Decision
	for _, other := range there {
		if given := d.Decisions[string(other.UID)]; given != nil && !wire.Ended(other) {
			held = append(held, given)
		}
	}
	m := d.Machines[specs()[i].Name]
	return obeyed.Twin{Machine: m, Reserved: d.reserved, Devices: offered(m, i)}.Fits(held, &ask.Request)
}

// asksElsewhere says whether a pod asks for a resource that the node does not offer.
func asksElsewhere(r *placement.Request, offered map[string][]*topology.Device) bool {
	for _, q := range r.Containers[0].Devices {
		if q.Count > 0 && offered[q.Resource] == nil {
			return true
		}
	}
	return false
}

// notAsAsked says how a decision is not as the pod asked; "" for nothing.
func notAsAsked(m *topology.Machine, pod *corev1.Pod, d *placement.Decision) string {
	ask, err := wire.ReadPod(pod)
	switch {
	case err != nil:
		return err.Error()
	case ask.RulesErr != nil:
		return ask.RulesErr.Error()
	}
	return obeyed.Crooked(m, &ask.Request, d)
}
