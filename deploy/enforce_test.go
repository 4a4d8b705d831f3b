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

// annotatedPod returns a request for a pod with annotations, or for its Binding. before is nil for
// a new pod.
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

// TestDemandedPlugins: annotations for required plugins, and for koordlet, come with the
// scheduler's Binding and stay. Koordinator's own scheduler writes koordlet's to its own pods.
func TestDemandedPlugins(t *testing.T) {
	const (
		key       = "required-plugins.noderesource.dev/container.main"
		tolerate  = "tolerate-missing-plugins.noderesource.dev/pod"
		scheduler = "system:serviceaccount:berth-system:berth-scheduler"
		demand    = `[ "berth" ]`

		status      = "scheduling.koordinator.sh/resource-status"
		placed      = "berth.dev/placement"
		koordinator = "system:serviceaccount:koordinator-system:koord-scheduler"
	)
	words := map[string]any{status: "{}"}
	said, none := map[string]any{key: demand}, map[string]any{"a": "b"}
	for name, c := range map[string]struct {
		a    admission.Attributes
		want string // "" if the request passes
	}{
		"a pod":                     {annotatedPod("", "u", none, nil), ""},
		"a demand of the user's":    {annotatedPod("", "u", map[string]any{key: "[]"}, nil), key + ": only berth-scheduler writes"},
		"a toleration":              {annotatedPod("", "u", map[string]any{tolerate: "true"}, nil), tolerate + ": only berth-scheduler writes"},
		"the pod's":                 {annotatedPod("", "u", map[string]any{"required-plugins.noderesource.dev": "[]"}, nil), "only berth-scheduler writes"},
		"another's of a like name":  {annotatedPod("", "u", map[string]any{"required-plugins.noderesource.dev.example.com/x": "[]"}, nil), ""},
		"added later":               {annotatedPod("", "u", said, none), "leave them out"},
		"changed":                   {annotatedPod("", "u", map[string]any{key: "[]"}, said), "leave them out"},
		"taken out":                 {annotatedPod("", "u", none, said), "leave them in"},
		"left":                      {annotatedPod("status", "u", map[string]any{key: demand, "a": "b"}, said), ""},
		"with the Binding":          {annotatedPod("binding", scheduler, said, nil), ""},
		"with somebody's Binding":   {annotatedPod("binding", "u", said, nil), "only the scheduler may write"},
		"a Binding without demands": {annotatedPod("binding", "u", none, nil), ""},

		"for koordlet":                   {annotatedPod("", "u", words, nil), status + ": only berth-scheduler writes"},
		"for koordlet, added":            {annotatedPod("", "u", words, none), "leave them out"},
		"for koordlet, changed":          {annotatedPod("", "u", map[string]any{status: "x"}, words), "leave them out"},
		"for koordlet, taken out":        {annotatedPod("status", "u", none, words), "leave them in"},
		"for koordlet, left":             {annotatedPod("", "u", map[string]any{status: "{}", "a": "b"}, words), ""},
		"for koordlet, Binding":          {annotatedPod("binding", scheduler, words, nil), ""},
		"for koordlet, another Binding":  {annotatedPod("binding", koordinator, words, nil), "only the scheduler may write"},
		"koord-scheduler's own":          {annotatedPod("", koordinator, words, none), ""},
		"koord-scheduler's, of ours":     {annotatedPod("", koordinator, map[string]any{placed: "{}", status: "{}"}, map[string]any{placed: "{}"}), "leave them out"},
		"koord-scheduler's, new pod":     {annotatedPod("", koordinator, words, nil), "leave them out"},
		"koord-scheduler demands plugin": {annotatedPod("", koordinator, said, none), "leave them out"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(deniedIn(t, Folder("policies"), "placement-by-binding.yaml", c.a), "\n")
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("refused with %q, want %q", got, c.want)
			}
		})
	}
}
