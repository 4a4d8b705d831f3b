package wire

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestCopyRules: a copy of each annotation of every dialect has the same meaning as the original.
// If a new annotation is read but not copied, the table shows that it is missing.
func TestCopyRules(t *testing.T) {
	words := map[string]string{
		PolicyAnnotation:        "restricted,scope=pod",
		VolcanoPolicyAnnotation: "restricted",
		CPUsAnnotation:          "full-cores", ExclusiveAnnotation: "core", L3Annotation: "required", MemoryAnnotation: "pinned",
		NUMANodesAnnotation: "2", DevicesAnnotation: "same-switch", FunctionsAnnotation: "one-per-card", ClaimsAnnotation: "required",
		koordinatorNUMA:  `{"numaTopologyPolicy":"Restricted"}`,
		koordinatorCPUs:  `{"preferredCPUBindPolicy":"FullPCPUs"}`,
		koordinatorJoint: `{"deviceTypes":["gpu","rdma"]}`,
		koordinatorHint:  `{"rdma":{"vfSelector":{}}}`,
	}
	for _, key := range rulesAnnotations {
		if _, listed := words[key]; !listed {
			t.Errorf("%s: no value here shows that it is copied", key)
		}
	}
	for key, value := range words {
		from := corev1.Pod{}
		from.Annotations, from.Labels = map[string]string{key: value}, map[string]string{koordinatorQoS: "LSR"}
		sameRules(t, &from)
	}
	all := corev1.Pod{}
	all.Annotations, all.Labels = maps.Clone(words), map[string]string{koordinatorQoS: "LSR", "app": "x"}
	sameRules(t, &all)
}

// sameRules copies the annotations, and compares the results of reading them, including errors.
func sameRules(t *testing.T, from *corev1.Pod) {
	t.Helper()
	from.Name = "p"
	to := corev1.Pod{Spec: owning(from).Spec}
	to.Name = from.Name
	CopyRules(&to.ObjectMeta, from)
	want, wantErr := ReadRules(from)
	got, gotErr := ReadRules(&to)
	if got != want || (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
		t.Errorf("%v: rules %+v, %v, want %+v, %v", from.Annotations, got, gotErr, want, wantErr)
	}
	if to.Labels["app"] != "" {
		t.Errorf("labels %v: want those alone that say how the pod is placed", to.Labels)
	}
}
