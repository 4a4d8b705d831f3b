package deploy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// annotatedPod is a request for a pod, or its Binding, with annotations; before is nil for a new
// one.
func annotatedPod(subresource, by string, now, before map[string]any) admission.Attributes {
	object := func(annotations map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "p", "namespace": "d", "annotations": annotations}}}
	}
	var old runtime.Object
	operation, options := admission.Create, runtime.Object(&metav1.CreateOptions{})
	if before != nil {
		old, operation, options = object(before), admission.Update, &metav1.UpdateOptions{}
	}
	return admission.NewAttributesRecord(object(now), old, corev1.SchemeGroupVersion.WithKind("Pod"), "d", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), subresource, operation, options, false, &user.DefaultInfo{Name: by})
}

// TestDemandedPlugins: which plugins a container needs comes with the scheduler's Binding, and
// stays.
func TestDemandedPlugins(t *testing.T) {
	const (
		key       = "required-plugins.noderesource.dev/container.main"
		tolerate  = "tolerate-missing-plugins.noderesource.dev/pod"
		scheduler = "system:serviceaccount:berth-system:berth-scheduler"
		demand    = `[ "berth" ]`
	)
	said, none := map[string]any{key: demand}, map[string]any{"a": "b"}
	for name, c := range map[string]struct {
		a    admission.Attributes
		want string // "" for a request that passes
	}{
		"a pod":                     {annotatedPod("", "u", none, nil), ""},
		"a demand of the user's":    {annotatedPod("", "u", map[string]any{key: "[]"}, nil), key + ": which plugins"},
		"a toleration":              {annotatedPod("", "u", map[string]any{tolerate: "true"}, nil), tolerate + ": which plugins"},
		"the pod's":                 {annotatedPod("", "u", map[string]any{"required-plugins.noderesource.dev": "[]"}, nil), "which plugins"},
		"another's of a like name":  {annotatedPod("", "u", map[string]any{"required-plugins.noderesource.dev.example.com/x": "[]"}, nil), ""},
		"added later":               {annotatedPod("", "u", said, none), "leave it out"},
		"changed":                   {annotatedPod("", "u", map[string]any{key: "[]"}, said), "leave it out"},
		"taken out":                 {annotatedPod("", "u", none, said), "leave it in"},
		"left":                      {annotatedPod("status", "u", map[string]any{key: demand, "a": "b"}, said), ""},
		"with the Binding":          {annotatedPod("binding", scheduler, said, nil), ""},
		"with somebody's Binding":   {annotatedPod("binding", "u", said, nil), "the scheduler's to write"},
		"a Binding without demands": {annotatedPod("binding", "u", none, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(deniedIn(t, Enforcement(), "demanded-plugins.yaml", c.a), "\n")
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("refused with %q, want %q", got, c.want)
			}
		})
	}
}
