// Package v1alpha1 has the kinds of scheduling.koordinator.sh/v1alpha1 that Berth reads and writes:
// Device and Reservation. The types are wire-compatible with Koordinator's schema. Koordinator
// installs the custom resource definitions.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.koordinator.sh
package v1alpha1
