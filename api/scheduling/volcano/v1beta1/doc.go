// Package v1beta1 has the kind of scheduling.volcano.sh/v1beta1 that Berth reads and writes:
// PodGroup, a set of pods that start together. The types are wire-compatible with Volcano's schema.
// Volcano installs the custom resource definition. On clusters without it, Berth's chart can
// install it.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.volcano.sh
package v1beta1
