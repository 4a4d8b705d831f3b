package wire

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// PreemptableKey is Volcano's annotation, or else label, of a pod or a PodGroup: "false" keeps it
// from being evicted for others.
const PreemptableKey = volcano.PreemptableKey

// KeptFromEviction reports whether the pod or the PodGroup is not to be evicted for others. As with
// Volcano the annotation comes before the label, and a word that is no truth value means false
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
