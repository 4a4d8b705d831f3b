package wire

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func mateOf(same, other string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", Annotations: map[string]string{GangAnnotation: "g", GangMinimumAnnotation: "2"}}}
	if same != "-" {
		pod.Annotations[SameNUMAAnnotation] = same
	}
	if other != "-" {
		pod.Annotations[OtherNUMAAnnotation] = other
	}
	return pod
}

func TestReadMates(t *testing.T) {
	for _, c := range []struct {
		same, other string
		want        []MateWish
		wrong       bool
	}{
		{"-", "-", nil, false},
		{"b", "-", []MateWish{{"b", false, true}}, false},
		{"preferred: b,c", "d", []MateWish{{"b", false, false}, {"c", false, false}, {"d", true, true}}, false},
		{"-", "*", []MateWish{{"*", true, true}}, false},
		{"b,b", "-", []MateWish{{"b", false, true}}, false},
		{"*", "-", nil, true},
		{"a", "-", nil, true},
		{"b", "b", nil, true},
		{"", "-", nil, true},
		{"required: b", "-", nil, true},
		{"b;c", "-", nil, true},
	} {
		got, err := ReadMates(mateOf(c.same, c.other))
		if !slices.Equal(got, c.want) || (err != nil) != c.wrong {
			t.Errorf("%q, %q: %v, %v; want %v, wrong %t", c.same, c.other, got, err, c.want, c.wrong)
		}
	}
	single := mateOf("b", "-")
	delete(single.Annotations, GangAnnotation)
	if _, err := ReadMates(single); err == nil {
		t.Error("a pod of no gang has no mates")
	}
}

// TestMatesOf: requests refer to pods by number. A pod that must be apart from all others has one
// request, however many others there are.
func TestMatesOf(t *testing.T) {
	named := func(name, same, other string) *corev1.Pod {
		pod := mateOf(same, other)
		pod.Name = name
		return pod
	}
	pods := []*corev1.Pod{named("p", "-", "*"), named("q", "preferred:p", "s"), named("r", "-", "preferred:*")}
	seated := []*corev1.Pod{named("s", "q,t", "*"), named("t", "-", "s")}
	got, err := MatesOf(pods, seated)
	want := [][]PlacedWish{
		{{All: true, Apart: true, Required: true}},
		{{Mate: 0}, {Mate: 3, Apart: true, Required: true}},
		{{All: true, Apart: true}},
		{{Mate: 1, Required: true}, {All: true, Apart: true, Required: true}},
		nil,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got, err := MatesOf(pods[:1], nil); err != nil || len(got[0]) > 0 {
		t.Errorf("there are no others: %+v, %v", got, err)
	}
	if _, err := MatesOf([]*corev1.Pod{named("p", "x", "-")}, nil); err == nil {
		t.Error("a pod that is not there is asked for")
	}
	var many []*corev1.Pod
	for i := range MaxGang {
		many = append(many, named(fmt.Sprint("p", i), "-", "*"))
	}
	if got, err := MatesOf(many, nil); err != nil || len(got[MaxGang-1]) != 1 {
		t.Errorf("%d wishes of a pod, %v; want 1", len(got[MaxGang-1]), err)
	}
}

// FuzzReadMates: every annotation is read completely, or refused with its path.
func FuzzReadMates(f *testing.F) {
	f.Add("b", "c")
	f.Add("preferred: b , c", "*")
	f.Add("preferred:", ",")
	f.Fuzz(func(t *testing.T, same, other string) {
		pod := mateOf(same, other)
		wishes, err := ReadMates(pod)
		var wrong *FieldError
		switch {
		case err != nil && !errors.As(err, &wrong):
			t.Errorf("%v names no field", err)
		case err == nil && len(wishes) == 0:
			t.Errorf("%q, %q: nothing was read, and nothing refused", same, other)
		}
		for _, w := range wishes {
			if w.Mate == "" || w.Mate == pod.Name || w.Mate == EveryMate && !w.Apart {
				t.Errorf("%q, %q: %+v", same, other, w)
			}
		}
	})
}
