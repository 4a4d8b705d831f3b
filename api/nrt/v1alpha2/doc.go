// Package v1alpha2 is wire-compatible with topology.node.k8s.io/v1alpha2, the resource that Node
// Feature Discovery and resource-topology-exporter write. The types are written from its schema;
// the custom resource definition is installed by its owners.
//
// +kubebuilder:object:generate=true
// +groupName=topology.node.k8s.io
package v1alpha2
