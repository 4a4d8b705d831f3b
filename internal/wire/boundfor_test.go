package wire

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhatABindingSaysIsReadBack: only what Berth's Binding has written is read.
func TestWhatABindingSaysIsReadBack(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n"}}
	said := BoundFor{Gang: GangKey{GangOfVolcano, "ns", "a"}, Whole: true, Reservation: "r"}
	for _, b := range []BoundFor{said, {Reservation: "r"}, {Gang: GangKey{GangOfPods, "ns", "a"}}, {Gang: GangKey{GangOfSigs, "ns", "a"}}} {
		pod.Annotations = map[string]string{BoundForAnnotation: WriteBoundFor(pod, b)}
		if got, ok := ReadBoundFor(pod); !ok || got != b {
			t.Errorf("got %+v, %t; want %+v", got, ok, b)
		}
	}
	if text := WriteBoundFor(pod, BoundFor{}); text != "" {
		t.Errorf("got %q for nothing", text)
	}
	right := WriteBoundFor(pod, said)
	for what, text := range map[string]string{
		"another pod's": strings.Replace(right, `"u"`, `"v"`, 1), "no JSON": right[1:], "another version": strings.Replace(right, `"v":1`, `"v":2`, 1),
		"another source": strings.Replace(right, "volcano", "v", 1), "much": strings.Replace(right, `"a"`, `"`+strings.Repeat("a", maxBoundFor)+`"`, 1),
	} {
		pod.Annotations[BoundForAnnotation] = text
		if got, ok := ReadBoundFor(pod); ok {
			t.Errorf("%s: got %+v, want nothing", what, got)
		}
	}
	pod.Annotations[BoundForAnnotation], pod.Spec.NodeName = right, ""
	if got, ok := ReadBoundFor(pod); ok {
		t.Errorf("a pod without a node: got %+v, want nothing", got)
	}
}

func FuzzReadBoundFor(f *testing.F) {
	f.Add(`{"v":1,"uid":"u","gang":"a","source":"gang"}`)
	f.Fuzz(func(t *testing.T, text string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "u", Annotations: map[string]string{BoundForAnnotation: text}}, Spec: corev1.PodSpec{NodeName: "n"}}
		b, ok := ReadBoundFor(pod)
		if !ok {
			return
		}
		pod.Annotations[BoundForAnnotation] = WriteBoundFor(pod, b)
		if again, _ := ReadBoundFor(pod); again != b {
			t.Errorf("%q: read %+v, and then %+v", text, b, again)
		}
	})
}
