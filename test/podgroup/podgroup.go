// Package podgroup has the kinds of other projects that declare gangs or hold places, as far as an
// API server is concerned.
package podgroup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// Manifests are the custom resources of all that are served.
func Manifests() [][]byte {
	return [][]byte{manifest(volcano.GroupVersion), manifest(sigs.GroupVersion)}
}

// manifest is a PodGroup that takes whatever is written.
func manifest(v schema.GroupVersion) []byte {
	return fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: podgroups.%[1]s
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: podgroups, singular: podgroup, kind: PodGroup, listKind: PodGroupList}
  versions:
  - name: %[2]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, v.Group, v.Version)
}

// Reservations is the custom resource of Koordinator's Reservations. It takes whatever is written.
func Reservations() []byte {
	return []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: reservations.scheduling.koordinator.sh
spec:
  group: scheduling.koordinator.sh
  scope: Cluster
  names: {plural: reservations, singular: reservation, kind: Reservation, listKind: ReservationList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
}
