package command

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/brief"
	"github.com/berth-dev/berth/internal/scheduler/outcome"
)

// beside makes the scheduler write the outcomes of its attempts outside its loop.
func (s *seams) beside() {
	s.sched.FailureHandler = writingAside(s.sched.FailureHandler, outcome.NewWriter(outcome.Options{
		Client: s.client, Pods: informersOf(s.sched).Core().V1().Pods().Lister(), Clock: clock.RealClock{}, Logger: klog.Background(),
	}))
}

// create creates a pod that no node admits. The watch puts it into the queue.
func (s *seams) create(t *testing.T) *corev1.Pod {
	t.Helper()
	pod, err := s.client.CoreV1().Pods("default").Create(t.Context(), s.pod("large", "1000"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestNoAttemptWaitsForAWrite: a failed attempt ends, and the next one can begin, while the API
// server is slow to accept its outcome.
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

// TestOutcomesAreKubeSchedulers: the outcome written outside the loop equals kube-scheduler's
// outcome.
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

// TestWhoWaitsIsToldLater: an event about a pod that only waits is written with its condition, and
// no pod is kept for it. A nomination is written at once.
func TestWhoWaitsIsToldLater(t *testing.T) {
	recorder := events.NewFakeRecorder(4)
	clock := testingclock.NewFakeClock(time.Now())
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	client := fake.NewClientset()
	for _, tc := range []struct {
		name       string
		waits      bool
		nominating *fwk.NominatingInfo
		atOnce     bool
	}{
		{"refused", false, nil, true},
		{"waits", true, nil, false},
		{"waits, and loses its node", true, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}, true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: types.UID(tc.name)}}
		if err := pods.Add(pod); err != nil {
			t.Fatal(err)
		}
		o := outcome.NewWriter(outcome.Options{Client: client, Pods: corelisters.NewPodLister(pods), Clock: clock, Logger: klog.Background()})
		a := &aside{Framework: cachers{recorder: recorder}, outcomes: o, said: brief.NewSaid(), waits: tc.waits}
		a.EventRecorder().WithLogger(klog.Background()).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", tc.name)
		condition := &corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: tc.name}
		if err := patchStatus(a.APICacher(), pod, condition, tc.nominating); err != nil {
			t.Fatal(err)
		}
		if got := len(recorder.Events) == 1; got != tc.atOnce {
			t.Errorf("%s: told at once: %t, want %t", tc.name, got, tc.atOnce)
		}
		clock.Step(time.Minute)
		if got := <-recorder.Events; !strings.Contains(got, tc.name) {
			t.Errorf("%s: told %q", tc.name, got)
		}
	}
}

// TestANominationIsSaidBeforeItIsShown: a pod that is tried again has its nomination before the
// watch shows it. Other copies of the pod do not change, and the node stays kept for the pod.
func TestANominationIsSaidBeforeItIsShown(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}}
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := pods.Add(pod); err != nil {
		t.Fatal(err)
	}
	queued, kept := &framework.PodInfo{Pod: pod}, nominations{nodes: map[string]string{}}
	sched := &kubescheduler.Scheduler{
		FailureHandler: func(_ context.Context, profile framework.Framework, info *framework.QueuedPodInfo, _ *fwk.Status, nominating *fwk.NominatingInfo, _ time.Time) {
			info.PodInfo = queued // in the version of the watch
			profile.AddNominatedPod(klog.Background(), info.PodInfo, nominating)
		},
	}
	*loop(sched) = func(klog.Logger) (entity, error) { return &framework.QueuedPodInfo{PodInfo: queued}, nil }
	o := outcome.NewWriter(outcome.Options{Client: fake.NewClientset(), Pods: corelisters.NewPodLister(pods), Clock: clock.RealClock{}, Logger: klog.Background()})
	sched.FailureHandler = writingAside(sched.FailureHandler, o)
	for _, want := range []string{"", "n1", "n2"} {
		if want != "" {
			o.Write(pod, nil, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: want})
		}
		next, err := (*loop(sched))(klog.Background())
		info := podOf(next)
		sayNomination(o, info)
		if err != nil || info.Pod.Status.NominatedNodeName != want || info.Pod.UID != pod.UID {
			t.Errorf("%+v, error %v: want nominated to %q", info.Pod, err, want)
		}
		if queued.Pod != pod || pod.Status.NominatedNodeName != "" {
			t.Fatalf("the watch's own pod was changed: %+v", pod)
		}
		sched.FailureHandler(t.Context(), kept, info, fwk.NewStatus(fwk.Unschedulable), nil, time.Now())
		if got := kept.nodes["p"]; got != want {
			t.Errorf("after an attempt in vain %q is kept, want %q", got, want)
		}
	}
}

// nominations is a profile that knows for which pod each node is kept.
type nominations struct {
	framework.Framework
	nodes map[string]string
}

func (n nominations) AddNominatedPod(_ klog.Logger, info fwk.PodInfo, to *fwk.NominatingInfo) {
	n.nodes[info.GetPod().Name] = ""
	if to.Mode() == fwk.ModeOverride {
		n.nodes[info.GetPod().Name] = to.NominatedNodeName
	}
}

// TestAsyncCallsStayKubeSchedulers: a profile with its own asynchronous API calls continues to use
// them.
func TestAsyncCallsStayKubeSchedulers(t *testing.T) {
	own := struct{ fwk.APICacher }{}
	if got := (&aside{Framework: cachers{own: &own}}).APICacher(); got != fwk.APICacher(&own) {
		t.Errorf("got %T, want the profile's own", got)
	}
	if _, ok := (&aside{Framework: cachers{}}).APICacher().(patching); !ok {
		t.Error("nobody writes for a profile that does not do so itself")
	}
}

// cachers is a profile with its own asynchronous calls, or without.
type cachers struct {
	framework.Framework
	own      fwk.APICacher
	recorder events.EventRecorderLogger
}

func (c cachers) APICacher() fwk.APICacher { return c.own }

func (c cachers) EventRecorder() events.EventRecorderLogger { return c.recorder }
