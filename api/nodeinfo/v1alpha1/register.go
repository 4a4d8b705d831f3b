package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "nodeinfo.volcano.sh", Version: "v1alpha1"}

// Numatopologies is the resource under which Numatopology objects are served.
var Numatopologies = GroupVersion.WithResource("numatopologies")

// SchemeBuilder collects the functions that register this package's types.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers this package's types with a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Numatopology{}, &NumatopologyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
