package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/topology"
)

// maxEventNote is the maximum length of an event's note
// (k8s.io/kubernetes/pkg/apis/core/validation, NoteLengthLimit).
const maxEventNote = 1024

// testEventOfAMixedCluster checks the event of a pod that fits nowhere. On one line, it has the
// refusing nodes with reasons and amounts, and the unreliable nodes with the time since their last
// heartbeat.
func testEventOfAMixedCluster(t *testing.T, p *schedulerPlane) {
	s := newFleetTest(t, p, pinnedNodes(3))
	bare, err := topology.Parse(pinnedMachine)
	s.fleet.must(err)
	s.fleet.createNode("bare", bare)
	s.fleet.nodes["n2"].mute <- true
	s.sched = startScheduler(t, p.ControlPlane, &scheduler.Args{StaleAfter: metav1.Duration{Duration: 2 * time.Second}})
	polls := 0
	s.await("n2 to be refused for its silence", func(p []corev1.Pod) bool {
		if polls++; polls%10 == 1 {
			s.create(pod(fmt.Sprint("probe", polls), 9)) // no NUMA node has that many CPUs
		}
		for _, probe := range p {
			if strings.Contains(unschedulable(p, probe.Name), "no sign of life") {
				return true
			}
		}
		return false
	})
	// NUMA 0 has 7 CPUs for pods and NUMA 1 has 8: 2 and 3 are left of each.
	for i := range 4 {
		s.create(pod(fmt.Sprint("filler", i), 5))
		s.awaitRunning(i + 1)
	}
	s.create(pod("asking", 4))
	var text string
	defer func() { t.Log(text) }()
	// On a busy machine a node with late heartbeats may count as silent for a moment.
	s.await("an explanation", func(p []corev1.Pod) bool {
		text = unschedulable(p, "asking")
		for _, want := range []string{
			"2 nodes: NUMA 0 has 2 free CPUs (4 needed), NUMA 1 has 3", "1 no NodeTopology: is berth-agent running there?", "1 node: last sign of life ",
		} {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return true
	})
	if strings.Contains(text, "\n") || len(text) > maxEventNote {
		t.Errorf("%d bytes, or more than a line:\n%s", len(text), text)
	}
	for name, reason := range map[string]string{"filler0": "Scheduled", "asking": "FailedScheduling"} {
		s.await("an event "+reason+" of "+name, func(p []corev1.Pod) bool { return s.isSaid(p, name, reason) })
	}
}

// isSaid reports whether the pod's profile has written an event with this reason about the pod.
func (s *schedulerTest) isSaid(pods []corev1.Pod, name, reason string) bool {
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	events, err := s.api.client.EventsV1().Events("default").List(s.Context(), metav1.ListOptions{})
	return err == nil && i >= 0 && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
		return e.Regarding.UID == pods[i].UID && e.Reason == reason && e.ReportingController == pods[i].Spec.SchedulerName
	})
}
