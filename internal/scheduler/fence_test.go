package scheduler

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// fencing is a takeover that fences pods a and b. A webhook keeps a from being written; tried names what was.
func fencing(t *testing.T) (f *fixture, tried chan string) {
	f = newFixture(t)
	client := fake.NewClientset()
	f.core.takeover = newTakeover(f.core, client, "berth-system")
	f.core.profiles.Store("mine", true)
	tried = make(chan string, 10)
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.PatchAction).GetName()
		tried <- name
		if name == "a" {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("a webhook says no"))
		}
		return true, unbound(name, "mine"), nil
	})
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.PodList{Items: []corev1.Pod{*unbound("a", "mine"), *unbound("b", "mine")}}, nil
	})
	return f, tried
}

// TestAPodThatCannotBeFenced: its Binding may be written until the API server has given it up, and so may those of pods whose
// fence has not been seen.
func TestAPodThatCannotBeFenced(t *testing.T) {
	f, tried := fencing(t)
	limit, end := context.WithCancel(t.Context())
	outcome := make(chan error)
	go func() {
		_, err := f.core.takeover.fence(limit)
		outcome <- err
	}()
	if first, second := <-tried, <-tried; first == second {
		t.Errorf("%s tried twice", first)
	}
	end()
	if err := <-outcome; !errors.Is(err, context.Canceled) || !apierrors.IsForbidden(err) {
		t.Errorf("it did not wait for the limit, or does not say why: %v", err)
	}
}

// TestAPodThatCannotBeFencedIsBound: nothing of it is under way any more.
func TestAPodThatCannotBeFencedIsBound(t *testing.T) {
	f, tried := fencing(t)
	outcome := make(chan error)
	go func() {
		_, err := f.core.takeover.fence(t.Context())
		outcome <- err
	}()
	<-tried
	<-tried
	f.feed.podTold(on(unbound("a", "mine"), "n"), false)
	fenced := unbound("b", "mine")
	fenced.Status.Conditions = []corev1.PodCondition{{Type: fenceType, Message: f.core.takeover.trail.name}}
	f.feed.podTold(fenced, false)
	if err := <-outcome; !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

// TestFenceInConflict: only a conflict with another pod of the name says that there is nothing to fence.
func TestFenceInConflict(t *testing.T) {
	for name, want := range map[string]struct {
		found types.UID
		tries int
	}{
		"others wrote this pod":    {unbound("a", "mine").UID, 2},
		"another pod of this name": {"another", 1},
	} {
		f := newFixture(t)
		client := fake.NewClientset()
		f.core.takeover = newTakeover(f.core, client, "berth-system")
		tries := 0
		client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if tries++; tries == 1 {
				return true, nil, apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("changed"))
			}
			return true, unbound("a", "mine"), nil
		})
		client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			pod := unbound("a", "mine")
			pod.UID = want.found
			return true, pod, nil
		})
		if err := f.core.takeover.fenceOne(t.Context(), unbound("a", "mine")); err != nil || tries != want.tries {
			t.Errorf("%s: %d tries, %v; want %d", name, tries, err, want.tries)
		}
	}
}
