package nodestate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/wire"
)

// Allocatable returns Node.status.allocatable, or false if the node has none. The argument node may
// be nil.
func Allocatable(node *corev1.Node) (has amounts.List, told bool) {
	if node == nil || len(node.Status.Allocatable) == 0 {
		return nil, false
	}
	return wire.ReadResources(node.Status.Allocatable), true
}

// RoomOf returns the node's amounts and the requests of the bound pods that have not ended. The
// argument node may be nil if it is not known. RoomOf ignores resources of device classes that the
// node does not have, because Dynamic Resource Allocation provides them (NodeResourcesFit,
// shouldDelegateResourceToDRA).
func RoomOf(node *corev1.Node, bound []*corev1.Pod, classes map[corev1.ResourceName]bool) *amounts.Node {
	room := amounts.Unknown()
	if all, told := Allocatable(node); told {
		var untold []string
		if _, told := all[amounts.Pods]; !told {
			untold = append(untold, amounts.Pods)
		}
		for r := range classes {
			if all[string(r)] == 0 {
				untold = append(untold, string(r))
			}
		}
		room = amounts.NewNode(all, untold...)
	}
	for _, pod := range bound {
		if !wire.Ended(pod) {
			room.Add(wire.ReadAmounts(pod), wire.PortsOf(pod)...)
		}
	}
	return room
}
