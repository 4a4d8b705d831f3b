// Package v1alpha1 is wire-compatible with nodeinfo.volcano.sh/v1alpha1. Volcano's
// resource-exporter writes a Numatopology of this version for every node. The types follow
// Volcano's schema as of v1.15 and v1.16.
//
// +kubebuilder:object:generate=true
// +groupName=nodeinfo.volcano.sh
package v1alpha1
