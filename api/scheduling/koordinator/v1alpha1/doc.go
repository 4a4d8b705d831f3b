// Package v1alpha1 is wire-compatible with scheduling.koordinator.sh/v1alpha1, as far as Berth
// reads and writes it: Device and Reservation. The types are written from its schema; the custom
// resource definitions are installed by their owners.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.koordinator.sh
package v1alpha1
