package survey

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Holder is a container with exclusive CPUs on a NUMA node, or a Reservation that holds CPUs there.
type Holder struct {
	NUMA topology.NUMAID `json:"numa"`
	// Namespace and Name are "" if the API server does not have the pod. A Reservation has no
	// namespace and the name "reservation/NAME".
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid"`
	Container string `json:"container"`
	// CPUs is "" on a node whose report has only amounts.
	CPUs string `json:"cpus"`
	// Count is the number of CPUs. It is set even if CPUs is "".
	Count int `json:"count"`
}

// Holders returns the holders of a node's CPUs, including pods in flight. The result is sorted by
// NUMA node, namespace and name.
func (s *Survey) Holders(name string) []Holder {
	n := s.States[name]
	if n == nil || n.Account == nil {
		return nil
	}
	names := map[string]*corev1.Pod{}
	for _, pod := range n.Bound {
		names[string(pod.UID)] = pod
	}
	snap := n.Snapshot()
	var out []Holder
	for i := range n.Machine().NUMANodes {
		m := &n.Machine().NUMANodes[i]
		from := len(out)
		for p := range snap.Pods {
			out = append(out, holdersOn(m, &snap.Pods[p], names[snap.Pods[p].UID])...)
		}
		for i := from; n.coarse() && i < len(out); i++ {
			out[i].CPUs = "" // the report has no CPU ids, and the ledger chose arbitrary CPUs
		}
		slices.SortStableFunc(out[from:], func(a, b Holder) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	return out
}

// holdersOn returns the containers of a pod that have CPUs on the NUMA node; pod may be nil.
func holdersOn(m *topology.NUMANode, p *placement.PodAllocation, pod *corev1.Pod) (out []Holder) {
	for i := range p.Containers {
		c := &p.Containers[i]
		cpus := c.CPUs.And(&m.CPUs)
		if cpus.IsEmpty() {
			continue
		}
		h := Holder{NUMA: m.ID, UID: p.UID, Container: c.Name, CPUs: cpus.String(), Count: cpus.Len()}
		switch {
		case pod == nil:
		case wire.OfReservation(pod):
			h.Name = heldName(pod)
		default:
			h.Namespace, h.Name = pod.Namespace, pod.Name
		}
		out = append(out, h)
	}
	return out
}

// Snapshot returns the node's state as it will be after the kubelet has admitted all pods in
// flight. If the ledger cannot predict this state, it returns the reported state. The node must
// have an Account.
func (n *NodeState) Snapshot() placement.Snapshot {
	if snap, ok := n.Account.View().Snapshot(); ok {
		return snap
	}
	return n.Report().Snapshot
}
