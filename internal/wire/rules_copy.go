package wire

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rulesAnnotations and rulesLabels are the keys of every dialect that determine the Rules of a pod
// (ReadRules).
var (
	rulesAnnotations = slices.Concat([]string{PolicyAnnotation, VolcanoPolicyAnnotation}, WishKeys, koordinatorSpoken)
	rulesLabels      = []string{koordinatorQoS}
)

// CopyRules copies a pod's placement rules to another pod, in every dialect. Two pods with the same
// resources then have equal Asks.
func CopyRules(to *metav1.ObjectMeta, from *corev1.Pod) {
	for _, key := range rulesAnnotations {
		if text, said := from.Annotations[key]; said {
			metav1.SetMetaDataAnnotation(to, key, text)
		}
	}
	for _, key := range rulesLabels {
		if text, said := from.Labels[key]; said {
			metav1.SetMetaDataLabel(to, key, text)
		}
	}
}
