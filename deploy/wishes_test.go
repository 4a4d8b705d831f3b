package deploy

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/berth-dev/berth/internal/wire"
)

func podRequest(now, before map[string]any) admission.Attributes {
	object := func(annotations map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "a", "namespace": "ns", "annotations": annotations}}}
	}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	by := &user.DefaultInfo{Name: "jane"}
	if before == nil {
		return admission.NewAttributesRecord(object(now), nil, kind, "ns", "a", resource, "", admission.Create, &metav1.CreateOptions{}, false, by)
	}
	return admission.NewAttributesRecord(object(now), object(before), kind, "ns", "a", resource, "", admission.Update, &metav1.UpdateOptions{}, false, by)
}

// TestWishesAreKnownWords: the API server refuses what the scheduler could not read, in its words,
// and nothing else.
func TestWishesAreKnownWords(t *testing.T) {
	const file = "placement-wishes.yaml"
	words := []string{"", "full-cores", "full-cores,required", "full-cores,preferred", "full-cores,", "spread", "spread,preferred", "shares", "shares,required",
		"core", "core,required", "numa,preferred", "numa,maybe", "required", "preferred", "pinned", "Pinned", "pinned ", "x\nspread", "spread\n",
		"same-switch", "same-root,required", "one-switch,preferred", "one-root", "same-numa", "one-switch,maybe", "one-per-card", "one-per-card,preferred"}
	refused := 0
	for _, key := range wire.WishKeys {
		for _, word := range words {
			_, err := wire.ReadRules(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: word}}})
			got := denied(t, file, podRequest(map[string]any{key: word}, nil))
			if len(got) > 0 != (err != nil) {
				t.Errorf("%s: %q: the API server says %q, the scheduler %v", key, word, got, err)
			}
			wrong := new(wire.FieldError)
			if errors.As(err, &wrong) && !strings.HasSuffix(strings.Join(got, ""), key+": want "+wrong.Want) {
				t.Errorf("%s: %q: told %q, want %q", key, word, got, wrong.Want)
			}
			refused += len(got)
		}
	}
	if refused < 40 {
		t.Errorf("%d words refused: want more", refused)
	}
	old := map[string]any{wire.CPUsAnnotation: "FullPCPUs", "x": "1"}
	if got := denied(t, file, podRequest(map[string]any{wire.CPUsAnnotation: "FullPCPUs", "x": "2"}, old)); len(got) > 0 {
		t.Errorf("a pod that has it already cannot be written any more: %q", got)
	}
	if got := denied(t, file, podRequest(map[string]any{wire.CPUsAnnotation: "spred"}, old)); len(got) != 1 {
		t.Errorf("changed into another wrong word: %q", got)
	}
	if got := denied(t, file, podRequest(nil, nil)); len(got) > 0 {
		t.Errorf("a pod that says nothing: %q", got)
	}
}
