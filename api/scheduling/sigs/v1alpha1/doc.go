// Package v1alpha1 has the part of scheduling.x-k8s.io/v1alpha1 that Berth reads and writes: the
// PodGroup of scheduler-plugins. The types are wire-compatible with its schema. scheduler-plugins
// installs the custom resource definition.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.x-k8s.io
package v1alpha1
