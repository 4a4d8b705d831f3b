package devices

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

// offered returns the devices of a machine by resource, according to offers[i].
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

// roomFor returns the nodes that could admit the pod or its whole gang, by an exhaustive search; ""
// if there are none. Bound pods stay there, except for pods with a lower priority.
func (d *load) roomFor(pod *corev1.Pod) string {
	pods := []*corev1.Pod{pod}
	if gang := pod.Annotations[wire.GangAnnotation]; gang != "" {
		pods = d.gang(gang)
		if strconv.Itoa(len(pods)) != pod.Annotations[wire.GangMinimumAnnotation] {
			return "" // it waits for other members
		}
		for _, mate := range pods {
			if mate.Spec.NodeName != "" {
				return ""
			}
		}
	}
	for first := range len(pods) + 1 {
		if d.fits(0, pods[:first]) && d.fits(1, pods[first:]) {
			return fmt.Sprintf("%s for %d, on %s for %d", nodes()[0].Name, first, nodes()[1].Name, len(pods)-first)
		}
	}
	return ""
}

// gang returns the members of a gang that have not ended.
func (d *load) gang(name string) (all []*corev1.Pod) {
	for _, pod := range d.Pods {
		if pod.Annotations[wire.GangAnnotation] == name && pod.DeletionTimestamp == nil && !wire.Ended(pod) {
			all = append(all, pod)
		}
	}
	return all
}

// fits reports if the i-th node with authority berth could admit the pods in addition to its bound
// pods.
func (d *load) fits(i int, pods []*corev1.Pod) bool {
	if len(pods) == 0 {
		return true
	}
	name := nodes()[i].Name
	m := d.Machines[name]
	twin := obeyed.Twin{Machine: m, Reserved: d.reserved, Devices: offered(m, i)}
	var asks []*placement.Request
	for _, pod := range pods {
		ask, err := wire.ReadPod(pod)
		if err != nil || ask.RulesErr != nil || asksOther(&ask.Request, twin.Devices) {
			return false
		}
		asks = append(asks, &ask.Request)
	}
	var held []*placement.Decision
	for _, other := range d.On(name) {
		given := d.Decisions[string(other.UID)]
		if given != nil && !wire.Ended(other) && *other.Spec.Priority >= *pods[0].Spec.Priority {
			held = append(held, given)
		}
	}
	return twin.Fits(held, asks...)
}

// asksOther reports if a pod requests a resource that the node does not offer.
func asksOther(r *placement.Request, offered map[string][]*topology.Device) bool {
	for i := range r.Containers {
		for _, q := range r.Containers[i].Devices {
			if q.Count > 0 && offered[q.Resource] == nil {
				return true
			}
		}
	}
	return false
}

// notAsAsked describes how a decision differs from the pod's request, or returns "".
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
