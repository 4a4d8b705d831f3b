package main

import (
	"maps"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFind: find detects a mark in maps, slices and structs, by name and by UID, also in unexported
// fields, and once for each value.
func TestFind(t *testing.T) {
	type inner struct {
		uids map[types.UID]bool
		back any
	}
	type outer struct {
		sync.Mutex
		pods  map[string]*corev1.Pod
		inner []*inner
		text  string
		loose sync.Map
		keys  map[types.NamespacedName]int
	}
	theirs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hostile", Name: "x"}}
	ours := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "friends", Annotations: map[string]string{"a": "hostile"}}}
	o := &outer{
		pods: map[string]*corev1.Pod{"a": theirs, "b": ours}, text: "pod hostile/x waits", inner: []*inner{{uids: map[types.UID]bool{"uid-1": true, "uid-2": true}}},
		keys: map[types.NamespacedName]int{{Namespace: "hostile", Name: "y"}: 1},
	}
	o.inner[0].back = o // a cycle
	o.loose.Store("uid-1", nil)
	want := map[string]int{".pods[]": 1, ".text": 1, ".inner[].uids[]": 1, ".loose[]": 1, ".keys[].Namespace": 1}
	if got := find(o, []string{"hostile", "uid-1"}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := find(o, []string{"nobody", "uid-3"}); len(got) > 0 {
		t.Errorf("found %v without an owner", got)
	}
}
