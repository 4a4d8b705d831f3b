// Package v1alpha1 is wire-compatible with batch.volcano.sh/v1alpha1, the Job that Volcano's users
// write. The types follow its schema as of v1.15 and v1.16, so that a Job can pass from one
// controller to the other. They include the fields that Berth does not serve, so that the
// controller can name them in an error.
//
// +kubebuilder:object:generate=true
// +groupName=batch.volcano.sh
package v1alpha1
