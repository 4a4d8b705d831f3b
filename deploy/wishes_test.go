package deploy

import (
	"cmp"
	"errors"
	"slices"
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

// unreadable is what the scheduler says about annotations that it cannot read; nil where it can.
func unreadable(annotations map[string]string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	_, err := wire.ReadRules(pod)
	_, gangErr := wire.ReadMembership(pod)
	_, matesErr := wire.ReadMates(pod)
	return cmp.Or(err, gangErr, matesErr)
}

// TestWishesAreKnownWords: the API server refuses what the scheduler could not read, in its words,
// and nothing else.
func TestWishesAreKnownWords(t *testing.T) {
	const file = "placement-wishes.yaml"
	words := []string{"", "full-cores", "full-cores,required", "full-cores,preferred", "full-cores,", "spread", "spread,preferred", "shares", "shares,required",
		"core", "core,required", "numa,preferred", "numa,maybe", "required", "preferred", "pinned", "Pinned", "pinned ", "x\nspread", "spread\n",
		"same-switch", "same-root,required", "one-switch,preferred", "one-root", "same-numa", "one-switch,maybe", "one-per-card", "one-per-card,preferred", "near", "near\n", "near,required"}
	words = append(words, "none", "single-numa-node,scope=pod", "single-numa-node,", "nonsense", "nonsense,scope=pod", "restricted,scope=node", "none,scope=pod,x",
		"train-1", "Train 1", "a.b", "a..b", "-a", strings.Repeat("a", 253), strings.Repeat("a", 254), "1", "4096", "4097", "0", "-1", "+7", "007", "three", "1.5", "99999999999999999999",
		"*", "preferred: *", "prefered: *", "preferred:", "train-1, train-2", "train-1,,train-2", "preferred: train-1,*", strings.Repeat("a,", 63)+"a", strings.Repeat("a,", 64)+"a")
	words = append(words, "9", "10", "59", "60", "64", "65", "99", "100", "02", "+2", "2 ", "2,required", "2\n",
		"perNUMANode=1", "perNUMANode=64", "perNUMANode=65", "perNUMANode=0", "perNUMANode=02", "perNUMANode=2,required", "perNUMANode=2\n")
	refused := 0
	for _, key := range slices.Concat(wire.WishKeys, wire.MateKeys, []string{wire.PolicyAnnotation, wire.GangAnnotation, wire.GangMinimumAnnotation}) {
		for _, word := range words {
			annotations := map[string]string{key: word}
			switch {
			case key == wire.GangAnnotation:
				annotations[wire.GangMinimumAnnotation] = "2"
			case strings.HasPrefix(key, wire.GangAnnotation):
				annotations[wire.GangAnnotation] = "z"
				annotations[wire.GangMinimumAnnotation] = cmp.Or(annotations[wire.GangMinimumAnnotation], "2")
			}
			annotations[key] = word
			err := unreadable(annotations)
			said := map[string]any{}
			for k, v := range annotations {
				said[k] = v
			}
			got := denied(t, file, podRequest(said, nil))
			if len(got) > 0 != (err != nil) {
				t.Errorf("%s: %q: the API server says %q, the scheduler %v", key, word, got, err)
			}
			wrong := new(wire.FieldError)
			if !errors.As(err, &wrong) {
				continue
			}
			value := "\"" + word + "\": "
			if len(word) > 64 {
				value = "\"" + word[:64] + "...\": "
			}
			if want := "metadata.annotations[" + key + "]: " + value + "want " + wrong.Want; strings.Join(got, "") != want {
				t.Errorf("%s: %q: told %q, want %q", key, word, got, want)
			}
			refused += len(got)
		}
	}
	if refused < 200 {
		t.Errorf("%d words refused: want more", refused)
	}
	err := unreadable(map[string]string{wire.GangAnnotation: "z"})
	if got := strings.Join(denied(t, file, podRequest(map[string]any{wire.GangAnnotation: "z"}, nil)), "; "); err == nil || !strings.Contains(err.Error(), got) || !strings.Contains(got, "want it beside berth.dev/gang: how many") {
		t.Errorf("a gang without a minimum: the API server says %q, the scheduler %v", got, err)
	}
	for name, said := range map[string]map[string]any{
		"beside nobody":         {wire.SameNUMAAnnotation: "a"},
		"apart from nobody":     {wire.OtherNUMAAnnotation: "prefered: *"},
		"one NUMA node and two": {wire.PolicyAnnotation: "single-numa-node,scope=pod", wire.NUMANodesAnnotation: "2"},
	} {
		if got := denied(t, file, podRequest(said, nil)); len(got) == 0 {
			t.Errorf("%s: want a refusal", name)
		}
	}
	if got := denied(t, file, podRequest(map[string]any{wire.SameNUMAAnnotation: "a", "scheduling.k8s.io/group-name": "g"}, nil)); len(got) > 0 {
		t.Errorf("beside a member of a PodGroup: %q", got)
	}
	if got := denied(t, file, podRequest(map[string]any{wire.PolicyAnnotation: "single-numa-node", wire.NUMANodesAnnotation: "1"}, nil)); len(got) > 0 {
		t.Errorf("one NUMA node twice: %q", got)
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

// TestTemplatesWarnOfWrongWords: in a template of pods the API server warns of what it refuses of a
// pod, in the same words.
func TestTemplatesWarnOfWrongWords(t *testing.T) {
	const file = "template-wishes.yaml"
	pod := func(annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	}
	for _, wrong := range []map[string]string{
		{wire.PolicyAnnotation: "single-numa"}, {wire.PolicyAnnotation: "restricted,scope=x"}, {wire.GangAnnotation: "g"}, {wire.GangAnnotation: "G", wire.GangMinimumAnnotation: "0"},
		{wire.SameNUMAAnnotation: "a"}, {wire.NUMANodesAnnotation: "2", wire.PolicyAnnotation: "single-numa-node"}, {wire.MemoryAnnotation: "x"}, {wire.DevicesAnnotation: "a3"},
		{wire.PolicyAnnotation: "single-numa-node"}, {},
	} {
		said := map[string]any{}
		for k, v := range wrong {
			said[k] = v
		}
		want := denied(t, "placement-wishes.yaml", podRequest(said, nil))
		for kind, path := range templateOf {
			if path == nil {
				continue
			}
			got := denied(t, file, written(t, kind, pod(wrong), nil))
			if len(got) != len(want) {
				t.Errorf("%s with %v: got %q, want %q", kind.Kind, wrong, got, want)
				continue
			}
			for i := range got {
				if !strings.HasSuffix(got[i], want[i]) || !strings.HasPrefix(got[i], "spec.") {
					t.Errorf("%s with %v: got %q, want spec....%s", kind.Kind, wrong, got[i], want[i])
				}
			}
			if again := denied(t, file, written(t, kind, pod(wrong), pod(wrong))); len(again) > 0 {
				t.Errorf("%s with %v that were there: %q", kind.Kind, wrong, again)
			}
		}
	}
}
