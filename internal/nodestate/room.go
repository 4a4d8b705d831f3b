package nodestate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/wire"
)

// Allocatable is what the node says that pods can have (Node.status.allocatable); told is false
// where it says nothing. node may be nil.
func Allocatable(node *corev1.Node) (has amounts.List, told bool) {
	if node == nil || len(node.Status.Allocatable) == 0 {
		return nil, false
	}
	return wire.ReadResources(node.Status.Allocatable), true
}

// RoomOf is what the node has beside the pods that are bound to it and have not ended. node is nil
// where it is not known. What device classes stand for is not looked at where the node has nothing
// of it: Dynamic Resource Allocation provides it in the node's stead (NodeResourcesFit,
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
