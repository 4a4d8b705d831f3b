// Package v1alpha2 is wire-compatible with topology.node.k8s.io/v1alpha2, which has the kind
// NodeResourceTopology. Node Feature Discovery and resource-topology-exporter write such objects.
// Each also installs the custom resource definition. On clusters without it, Berth's chart can
// install it.
//
// +kubebuilder:object:generate=true
// +groupName=topology.node.k8s.io
package v1alpha2
