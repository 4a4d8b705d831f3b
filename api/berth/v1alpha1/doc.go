// Package v1alpha1 holds the API types of berth.dev/v1alpha1.
//
// +kubebuilder:object:generate=true
// +groupName=berth.dev
package v1alpha1
