// Package v1alpha1 is wire-compatible with batch.volcano.sh/v1alpha1, which has the kind Job of
// Volcano. The types follow Volcano's schema as of v1.15 and v1.16, so that Berth's controller and
// Volcano's can serve the same Job one after the other. The types also have the fields that Berth
// does not support, so that the controller can name these fields in an error.
//
// +kubebuilder:object:generate=true
// +groupName=batch.volcano.sh
package v1alpha1
