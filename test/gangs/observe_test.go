package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/topology"
)

// scene is an observer with two gangs of two members: one that fits, and one that does not.
type scene struct {
	*observer
	out   bytes.Buffer
	clock time.Time
}

func newScene() *scene {
	s := &scene{clock: time.Unix(1000, 0)}
	s.observer = newObserver(&s.out, func(*corev1.Pod) (topology.CPUSet, string, error) { return topology.CPUSet{}, "", nil })
	s.now = func() time.Time { return s.clock }
	s.gangs["a"] = &watched{Gang: &Gang{Name: "a", Minimum: 2, Timeout: 10 * time.Second}, made: s.clock}
	s.gangs["big"] = &watched{Gang: &Gang{Name: "big", Minimum: 2, TooLarge: true, Urgent: true}, made: s.clock}
	return s
}

// pod returns a member of a gang, bound to a node if it is not "".
func pod(gang, name, node string) *corev1.Pod {
	g := Gang{Name: gang}
	p := g.member(&Member{CPUs: 1}, name)
	p.UID, p.Spec.NodeName = types.UID(name), node
	return p
}

func cpus(list string) (out topology.CPUSet) {
	if err := out.UnmarshalText([]byte(list)); err != nil {
		panic(err)
	}
	return out
}

// overtake deletes a pod with some CPUs, and after a while gives another pod CPUs 1 and 2, which
// were not promised.
func (s *scene) overtake(after time.Duration, had string) {
	left, came := pod("x", "x-0", "n0"), pod("y", "y-0", "n0")
	left.Status.Phase, came.Status.Phase = corev1.PodRunning, corev1.PodRunning
	s.differs = func(*corev1.Pod) (topology.CPUSet, string, error) { return cpus(had), "", nil }
	s.see(left)
	left = left.DeepCopy()
	left.DeletionTimestamp = &metav1.Time{Time: s.clock}
	s.see(left)
	s.clock = s.clock.Add(after)
	s.differs = func(*corev1.Pod) (topology.CPUSet, string, error) { return cpus("1-2"), "other CPUs", nil }
	s.see(came)
}

// refuse deletes a pod, and after a while refuses another pod, with or without an init container.
func (s *scene) refuse(after time.Duration, init bool) {
	left, came := pod("x", "x-0", "n0"), pod("a", "a-0", "n0")
	left.Status.Phase, came.Status.Phase, came.Status.Reason = corev1.PodRunning, corev1.PodFailed, "TopologyAffinityError"
	s.differs = func(*corev1.Pod) (topology.CPUSet, string, error) { return cpus("1"), "", nil }
	s.see(left)
	left = left.DeepCopy()
	left.DeletionTimestamp = &metav1.Time{Time: s.clock}
	s.see(left)
	s.clock = s.clock.Add(after)
	if init {
		came.Spec.InitContainers = came.Spec.Containers
	}
	s.see(came)
}

// TestTheObserverNotices: the observer records each kind of failure.
func TestTheObserverNotices(t *testing.T) {
	evicted := pod("a", "a-0", "n0")
	evicted.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: preempted}}
	failed := pod("a", "a-0", "n0")
	failed.Status.Phase, failed.Status.Reason = corev1.PodFailed, "TopologyAffinityError"
	running := pod("a", "a-0", "n0")
	running.Status.Phase = corev1.PodRunning
	nominated := pod("big", "big-0", "")
	nominated.Status.NominatedNodeName = "n0"
	for _, c := range []struct {
		name string
		do   func(*scene)
		want string // "" for nothing
		all  result
	}{
		{"a gang that is whole", func(s *scene) {
			s.see(pod("a", "a-0", "n0"))
			s.see(pod("a", "a-1", "n0"))
			s.clock = s.clock.Add(time.Hour)
			s.late(time.Unix(1000, 0))
		}, "", result{Whole: 1}},
		{"a part past the deadline", func(s *scene) {
			s.see(pod("a", "a-0", "n0"))
			s.clock = s.clock.Add(10*time.Second + grace)
			s.late(time.Unix(1000, 0))
			if s.wrong > 0 {
				t.Error("it is not past the deadline yet")
			}
			s.clock = s.clock.Add(time.Second)
			s.late(time.Unix(1000, 0))
			s.late(time.Unix(1000, 0))
		}, "has 1 of 2 members bound", result{PartialPastDeadline: 1}},
		{"a part whose scheduler has just come back", func(s *scene) {
			s.see(pod("a", "a-0", "n0"))
			s.clock = s.clock.Add(time.Hour)
			s.late(s.clock.Add(-10*time.Second - grace))
			s.late(time.Time{})
		}, "", result{}},
		{"a part that was deleted in time", func(s *scene) {
			s.see(pod("a", "a-0", "n0"))
			s.gone(pod("a", "a-0", "n0"))
			s.clock = s.clock.Add(time.Hour)
			s.late(time.Unix(1000, 0))
		}, "", result{}},
		{"a member of a gang that does not fit is bound", func(s *scene) { s.see(pod("big", "big-0", "n0")) }, "is bound to n0", result{}},
		{"one is nominated", func(s *scene) { s.see(nominated) }, "is nominated to n0", result{}},
		{"an eviction for a gang that does not fit", func(s *scene) { s.see(evicted) }, "no urgent gang that fits", result{}},
		{"an eviction for one that fits", func(s *scene) {
			s.gangs["u"] = &watched{Gang: &Gang{Name: "u", Minimum: 2, Urgent: true}, made: s.clock}
			s.see(evicted)
		}, "", result{}},
		{"a gang that was whole is torn", func(s *scene) {
			s.see(pod("a", "a-0", "n0"))
			s.see(pod("a", "a-1", "n0"))
			s.gone(pod("a", "a-1", "n0"))
		}, "was deleted by the scheduler", result{Whole: 1}},
		{"a refusal", func(s *scene) { s.see(failed); s.see(failed) }, "refused pod a-0", result{Refused: 1}},
		{"a refusal after a restart", func(s *scene) { s.restarted["n0"] = s.clock; s.see(failed) }, "", result{}},
		{"a refusal beside a pod that left, without init containers", func(s *scene) { s.refuse(2*time.Second, false) }, "refused pod a-0", result{Refused: 1}},
		{"one with init containers", func(s *scene) { s.refuse(2*time.Second, true) }, "which was leaving", result{}},
		{"one with init containers, long after", func(s *scene) { s.refuse(4*time.Second, true) }, "refused pod a-0", result{Refused: 1}},
		{"a wrong prediction", func(s *scene) {
			s.differs = func(*corev1.Pod) (topology.CPUSet, string, error) { return cpus("1"), "other CPUs", nil }
			s.see(running)
		}, "other CPUs", result{Mispredicted: 1}},
		{"CPUs of a pod that was deleted as the Binding was written", func(s *scene) { s.overtake(2*time.Second, "1-2") }, "a pod that was leaving", result{Mispredicted: 0}},
		{"CPUs of a pod that was deleted long before", func(s *scene) { s.overtake(4*time.Second, "1-2") }, "other CPUs", result{Mispredicted: 1}},
		{"other CPUs than those of a pod that was deleted", func(s *scene) { s.overtake(2*time.Second, "1") }, "other CPUs", result{Mispredicted: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			c.do(s)
			said := s.out.String()
			if (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
				t.Errorf("it says %q, want %q", said, c.want)
			}
			if s.result != c.all {
				t.Errorf("it counts %+v, want %+v", s.result, c.all)
			}
			if s.wrong > 1 {
				t.Errorf("it complains %d times", s.wrong)
			}
		})
	}
}
