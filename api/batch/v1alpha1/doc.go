// Package v1alpha1 is wire-compatible with batch.volcano.sh/v1alpha1, the Job that Volcano's users
// write. The types are written from its schema as of v1.15 and v1.16, so that a Job may pass from
// one controller to the other. Fields that Berth does not serve are here all the same: who writes
// one is told its name.
//
// +kubebuilder:object:generate=true
// +groupName=batch.volcano.sh
package v1alpha1
