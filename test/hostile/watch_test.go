package main

import (
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/test/tenant"
	"github.com/berth-dev/berth/test/trial"
)

// TestEveryPodGoes: a pod is gone when it is deleted, when a list does not contain it, and when
// another pod has its name. It counts as killed unless its unit deletes it.
func TestEveryPodGoes(t *testing.T) {
	pod := func(uid, unit string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: friends, Name: "gang0-0", UID: types.UID(uid), Labels: map[string]string{tenant.UnitLabel: unit}}}
	}
	first, next := pod("1", "first"), pod("2", "next")
	for name, c := range map[string]struct {
		do     func(cache.ResourceEventHandler)
		leaves bool
		killed int
		next   int
	}{
		"deleted":                  {func(h cache.ResourceEventHandler) { h.OnDelete(first) }, false, 1, 0},
		"deleted by its unit":      {func(h cache.ResourceEventHandler) { h.OnDelete(first) }, true, 0, 0},
		"not in the list":          {func(h cache.ResourceEventHandler) { h.OnDelete(cache.DeletedFinalStateUnknown{Obj: first}) }, false, 1, 0},
		"another in its place":     {func(h cache.ResourceEventHandler) { h.OnUpdate(first, next) }, false, 1, 1},
		"another, after its unit":  {func(h cache.ResourceEventHandler) { h.OnUpdate(first, next) }, true, 0, 1},
		"changed, and then killed": {func(h cache.ResourceEventHandler) { h.OnUpdate(first, first); h.OnDelete(first) }, false, 1, 0},
	} {
		w, err := newWatcher(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		h := trial.Handler(w.see, w.gone)
		h.OnAdd(first, false)
		if c.leaves {
			w.leave("first")
		}
		c.do(h)
		if left, there, killed := w.unit("first").there, w.unit("next").there, w.harms().Killed; left != 0 || there != c.next || killed != c.killed {
			t.Errorf("%s: %d of first are left, %d of next are there, %d are killed: want 0, %d and %d", name, left, there, killed, c.next, c.killed)
		}
	}
}
