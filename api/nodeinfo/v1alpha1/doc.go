// Package v1alpha1 is wire-compatible with nodeinfo.volcano.sh/v1alpha1, the resource that
// Volcano's resource-exporter writes for every node. The types are written from its schema as of
// v1.15 and v1.16.
//
// +kubebuilder:object:generate=true
// +groupName=nodeinfo.volcano.sh
package v1alpha1
