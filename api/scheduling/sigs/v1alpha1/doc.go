// Package v1alpha1 has the kind of scheduling.x-k8s.io/v1alpha1 that Berth reads and writes: the
// PodGroup of scheduler-plugins. The types are wire-compatible with the schema of
// scheduler-plugins, which installs the custom resource definition.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.x-k8s.io
package v1alpha1
