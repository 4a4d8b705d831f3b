package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// TestAVersionIsReadOnce, and is not confused with another version of the same resourceVersion.
func TestAVersionIsReadOnce(t *testing.T) {
	f := newFixture(t)
	one, two := pinned("x", 4), pinned("x", 2)
	first, err := f.read(one)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := f.read(one); &again.Request.Containers[0] != &first.Request.Containers[0] {
		t.Error("read again")
	}
	if other, _ := f.read(two); other.Request.CPUs() != 2 {
		t.Errorf("%d CPUs, want 2: that is the other version", other.Request.CPUs())
	}
	if back, _ := f.read(one); back.Request.CPUs() != 4 {
		t.Errorf("%d CPUs, want 4", back.Request.CPUs())
	}
}

// TestAsksHaveABound: data of a pod is kept until it is deleted or bound. If there is data of
// maxAsks pods, a new pod replaces any other, and a new version of a pod replaces its old one.
func TestAsksHaveABound(t *testing.T) {
	f := newFixture(t)
	gone, bound := pinned("gone", 1), pinned("bound", 1)
	for i, pod := range []*corev1.Pod{gone, bound} {
		if _, err := f.read(pod); err != nil || f.pods.of.Len() != i+1 {
			t.Fatalf("%v, %d remembered", err, f.pods.of.Len())
		}
	}
	f.core.OnDelete(gone)
	f.core.OnUpdate(bound, on(bound.DeepCopy(), "n"))
	if f.pods.of.Len() > 0 {
		t.Errorf("%d remembered, want none", f.pods.of.Len())
	}
	for i := range maxAsks + 10 {
		if _, err := f.read(pinned(fmt.Sprint("x", i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.read(pinned(fmt.Sprint("x", maxAsks+9), 1)); err != nil { // another version of a pod that is kept
		t.Fatal(err)
	}
	if f.pods.of.Len() != maxAsks {
		t.Errorf("%d remembered, want %d", f.pods.of.Len(), maxAsks)
	}
}

// TestNobodyGoneIsRemembered: the framework may ask about a pod that is already known to be deleted
// or bound.
func TestNobodyGoneIsRemembered(t *testing.T) {
	f := newFixture(t)
	pod := pinned("x", 1)
	for _, now := range []*corev1.Pod{nil, on(pod.DeepCopy(), "n"), pinned("x", 1)} {
		if now != nil && now.Spec.NodeName == "" {
			now.UID = "another"
		}
		f.pods.PodLister = listerOf(t, now)
		if f.pods.same(pod, pod.DeepCopy()); f.pods.of.Len() > 0 {
			t.Errorf("remembered, though the API has %v", now)
		}
	}
	f.pods.PodLister = listerOf(t, pod)
	if f.pods.same(pod, pod.DeepCopy()); f.pods.of.Len() != 1 {
		t.Errorf("%d remembered, want 1", f.pods.of.Len())
	}
}

// listerOf returns a lister with one pod; without pods if pod is nil.
func listerOf(t *testing.T, pod *corev1.Pod) corelisters.PodLister {
	t.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if pod != nil {
		if err := store.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	return corelisters.NewPodLister(store)
}
