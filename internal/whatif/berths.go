package whatif

import (
	"cmp"
	"fmt"

	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/topology"
)

// Machine returns the node's hardware.
func (n *Node) Machine() *topology.Machine { return n.machine }

// Berths returns the resources that each pod has on the node.
func (n *Node) Berths() *machineview.Berths {
	c := &n.config
	return &machineview.Berths{
		Facts: fmt.Sprintf("policy %s, scope %s, CPU manager %s, memory manager %s",
			cmp.Or(c.TopologyManagerPolicy, "none"), cmp.Or(c.TopologyManagerScope, "container"),
			cmp.Or(c.CPUManagerPolicy, "none"), cmp.Or(c.MemoryManagerPolicy, "None")),
		Snapshot: n.state.Snapshot(), Reserved: n.model.ReservedCPUs(),
		Pinning: c.CPUManagerPolicy == "static", Tenants: n.tenants,
	}
}

// The method named records the name of a pod for drawings of the node (Berths).
func (n *Node) named(a *ask) {
	name := a.pod.Name
	if a.pod.Namespace != "" {
		name = a.pod.Namespace + "/" + name
	}
	n.tenants = append(n.tenants, machineview.Tenant{UID: a.request.UID, Name: name})
}
