// Package v1alpha1 is wire-compatible with scheduling.x-k8s.io/v1alpha1, as far as Berth reads and
// writes it: the PodGroup of scheduler-plugins. The types are written from its schema; the custom
// resource definition is installed by its owners.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.x-k8s.io
package v1alpha1
