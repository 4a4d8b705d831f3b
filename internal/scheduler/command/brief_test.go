package command

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// TestBriefNotes: a note has at most 300 bytes, is cut between reasons, and keeps both
// kube-scheduler's and Berth's first reason.
func TestBriefNotes(t *testing.T) {
	const fails = "0/13 nodes are available: 3 Insufficient cpu, 5 node(s) whose kubelet would refuse the pod: TopologyAffinityError: no set of NUMA nodes is preferred by all resources, 5 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/13 nodes are available: 3 No preemption victims found for incoming pod, 10 Preemption is not helpful for scheduling."
	const own = " Berth: 2 nodes: 70 CPUs need 2 NUMA nodes, and single-numa-node allows 1 (TopologyAffinityError); 3 nodes: NUMA 0 has 31 free CPUs of 70 asked, NUMA 1 has 30 (TopologyAffinityError); no preemption helps"
	for name, c := range map[string]struct {
		note string
		want []string
	}{
		"short":            {"0/1 nodes are available: 1 Insufficient cpu.", []string{"0/1 nodes are available: 1 Insufficient cpu."}},
		"kube-scheduler's": {fails, []string{"0/13 nodes are available: 3 Insufficient cpu", noteMore}},
		"both":             {fails + own, []string{"0/13 nodes are available: 3 Insufficient cpu", "Berth: 2 nodes: 70 CPUs need 2 NUMA nodes, and single-numa-node allows 1 (TopologyAffinityError)", noteMore}},
		"Berth's":          {strings.TrimSpace(own) + own, []string{"Berth: 2 nodes: 70 CPUs need 2", noteMore}},
		"one long word":    {strings.Repeat("é", 400), []string{"é...", noteMore}},
	} {
		got := briefNote(c.note)
		if len(got) > maxNote || len(c.note) <= maxNote && got != c.note {
			t.Errorf("%s: %d bytes: %s", name, len(got), got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %q in %q", name, want, got)
			}
		}
		if strings.Contains(got, "victims") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// recording remembers what it is told.
type recording struct {
	events.EventRecorderLogger
	about []string
}

func (r *recording) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	ref := about.(*corev1.ObjectReference)
	r.about = append(r.about, fmt.Sprintf("%s@%s %s: ", ref.Name, ref.ResourceVersion, reason)+fmt.Sprintf(note, args...))
}

// TestTheSameEventIsASeries: a recorder takes events for the same that are about the same version
// of a pod. What is said again is about the version of which it was said first.
func TestTheSameEventIsASeries(t *testing.T) {
	in := &recording{}
	b := brief{in, newBriefEvents()}
	pod := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: version}}
	}
	b.Eventf(pod("1"), nil, "Warning", "FailedScheduling", "Scheduling", "no 100%s node")
	b.Eventf(pod("2"), nil, "Warning", "FailedScheduling", "Scheduling", "no 100%s node")
	b.Eventf(&corev1.ObjectReference{Name: "p", UID: "u", ResourceVersion: "3"}, nil, "Warning", "FailedScheduling", "Scheduling", "%s", "other")
	b.Eventf(pod("4"), nil, "Warning", "FailedScheduling", "Scheduling", "other")
	b.Eventf(pod("5"), nil, "Warning", "GangNotPlaced", "Scheduling", "other")
	want := []string{"p@1 FailedScheduling: no 100%s node", "p@1 FailedScheduling: no 100%s node", "p@3 FailedScheduling: other", "p@3 FailedScheduling: other", "p@5 GangNotPlaced: other"}
	if got := strings.Join(in.about, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	for i := range 3 * maxTold {
		b.Eventf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod("").UID + "x", Name: fmt.Sprint(i)}}, nil, "Warning", fmt.Sprint(i), "Scheduling", "x")
	}
	if n := b.of.last.Len(); n > maxTold {
		t.Errorf("%d events are remembered", n)
	}
}
