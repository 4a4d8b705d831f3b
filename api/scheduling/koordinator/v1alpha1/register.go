package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "scheduling.koordinator.sh", Version: "v1alpha1"}

// Devices is the resource under which Device objects are served.
var Devices = GroupVersion.WithResource("devices")

// Reservations is the resource under which Reservation objects are served.
var Reservations = GroupVersion.WithResource("reservations")

// SchemeBuilder collects the functions that register this package's types.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers this package's types with a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Device{}, &DeviceList{}, &Reservation{}, &ReservationList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
