package command

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/scheduler/outcome"
)

// beside lets the outcomes of the scheduler's attempts be written beside its loop.
func (s *seams) beside() {
	writeAside(s.sched, outcome.NewWriter(outcome.Options{
		Client: s.client, Pods: informersOf(s.sched).Core().V1().Pods().Lister(), Clock: clock.RealClock{}, Logger: klog.Background(),
	}))
}

// create makes a pod that no node takes; the watch puts it into the queue.
func (s *seams) create(t *testing.T) *corev1.Pod {
	t.Helper()
	pod, err := s.client.CoreV1().Pods("default").Create(t.Context(), s.pod("large", "1000"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestNoAttemptWaitsForAWrite: an attempt in vain is over, and the next can begin, while the API
// server takes its time for what came of it.
func TestNoAttemptWaitsForAWrite(t *testing.T) {
	s := newSeams(t)
	s.beside()
	asked, answer, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		close(asked)
		<-answer
		return false, nil, nil
	})
	s.create(t)
	go func() {
		defer close(over)
		s.cycle(t)
	}()
	<-asked
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Error("the scheduling loop waits for a pod's status")
	}
	close(answer)
	<-over
}

// TestOutcomesAreKubeSchedulers: what is written beside the loop is what kube-scheduler writes in
// it.
func TestOutcomesAreKubeSchedulers(t *testing.T) {
	written := func(equip func(*seams)) corev1.PodStatus {
		s := newSeams(t)
		equip(s)
		seen, err := s.client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer seen.Stop()
		pod := s.create(t)
		s.cycle(t)
		for len(pod.Status.Conditions) == 0 {
			pod = (<-seen.ResultChan()).Object.(*corev1.Pod)
		}
		for i := range pod.Status.Conditions {
			pod.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		return pod.Status
	}
	want := written(func(*seams) {})
	if got := written((*seams).beside); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAsyncCallsStayKubeSchedulers: a profile that writes beside the loop by itself goes on to.
func TestAsyncCallsStayKubeSchedulers(t *testing.T) {
	own := struct{ fwk.APICacher }{}
	if got := (aside{Framework: cachers{own: &own}}).APICacher(); got != fwk.APICacher(&own) {
		t.Errorf("got %T, want the profile's own", got)
	}
	if _, ok := (aside{Framework: cachers{}}).APICacher().(patching); !ok {
		t.Error("nobody writes for a profile that does not do so itself")
	}
}

// cachers is a profile with calls of its own, or none.
type cachers struct {
	framework.Framework
	own fwk.APICacher
}

func (c cachers) APICacher() fwk.APICacher { return c.own }
