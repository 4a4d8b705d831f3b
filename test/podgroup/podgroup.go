// Package podgroup has custom resource definitions without schemas for the kinds of other projects
// that declare gangs or reserve resources.
package podgroup

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// Manifests returns the definitions of all served kinds.
func Manifests() [][]byte {
	return [][]byte{Kind(volcano.GroupVersion, "PodGroup", "Namespaced"), Kind(sigs.GroupVersion, "PodGroup", "Namespaced")}
}

// Reservations returns the definition of Koordinator's Reservations.
func Reservations() []byte { return Kind(koordinator.GroupVersion, "Reservation", "Cluster") }

// Kind returns the definition of a custom resource that accepts any fields.
func Kind(v schema.GroupVersion, kind, scope string) []byte {
	return fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[3]ss.%[1]s
spec:
  group: %[1]s
  scope: %[5]s
  names: {plural: %[3]ss, singular: %[3]s, kind: %[4]s, listKind: %[4]sList}
  versions:
  - name: %[2]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, v.Group, v.Version, strings.ToLower(kind), kind, scope)
}
