// Package v1beta1 is wire-compatible with scheduling.volcano.sh/v1beta1, as far as Berth reads and
// writes it: the PodGroup, by which Volcano's users say which pods start together. The types are
// written from its schema; the custom resource definition is installed by its owners.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.volcano.sh
package v1beta1
