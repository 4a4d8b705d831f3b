package command

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
)

// trimNodes lets informers that do not run yet remember of Nodes only what scheduling goes by.
// Kube-scheduler trims pods alone. The error is the informer's.
func trimNodes(shared informers.SharedInformerFactory) error {
	return shared.Core().V1().Nodes().Informer().SetTransform(trimmed)
}

// trimmed takes from a Node what no plugin asks for: capacity (what is allocatable counts),
// conditions (the node controller makes taints of them), addresses, volumes (CSINode and
// VolumeAttachment count), and who wrote what. Other objects stay: an informer that missed the end
// of a Node has one in its place.
func trimmed(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		node.ManagedFields = nil
		s := &node.Status
		s.Capacity, s.Conditions, s.Addresses, s.VolumesInUse, s.VolumesAttached = nil, nil, nil, nil, nil
	}
	return obj, nil
}
