package wire

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// PreemptableKey is Volcano's annotation or label on a pod or a PodGroup. "false" protects the pod,
// or the pods of the PodGroup, from eviction for other pods.
const PreemptableKey = volcano.PreemptableKey

// KeptFromEviction reports whether the object protects its pods from eviction for other pods. As in
// Volcano, the annotation overrides the label, and a value that is not a boolean counts as "false"
// (GetPodPreemptable in pkg/scheduler/api/pod_info.go).
func KeptFromEviction(object metav1.Object) bool {
	text, said := object.GetAnnotations()[PreemptableKey]
	if !said {
		text, said = object.GetLabels()[PreemptableKey]
	}
	if !said {
		return false
	}
	may, err := strconv.ParseBool(text)
	return err != nil || !may
}
