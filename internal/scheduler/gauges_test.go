package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	testclock "k8s.io/utils/clock/testing"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/scheduler/reservation"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// TestHeldGauges: every phase and authority has a series, even if its value is zero.
func TestHeldGauges(t *testing.T) {
	names := map[*metrics.Desc]string{reservationsDesc: "reservations", placesDesc: "places", heldCPUsDesc: "cpus", heldMemoryDesc: "memory", heldDevicesDesc: "devices"}
	series := func(c *reservation.Census) (out []string) {
		heldGauges(c, func(d *metrics.Desc, v float64, labels ...string) { out = append(out, fmt.Sprint(names[d], labels, v)) })
		return out
	}
	empty := []string{
		"reservations[Pending] 0", "reservations[Available] 0", "reservations[Succeeded] 0", "reservations[Failed] 0",
		"places[kubelet] 0", "cpus[kubelet] 0", "memory[kubelet] 0", "places[berth] 0", "cpus[berth] 0", "memory[berth] 0",
	}
	if got := series(&reservation.Census{}); !slices.Equal(got, empty) {
		t.Errorf("without any: %q", got)
	}
	got := series(&reservation.Census{
		Phases: map[koordinator.ReservationPhase]int{koordinator.ReservationAvailable: 2},
		Held: map[placement.Authority]reservation.Unused{
			placement.AuthorityBerth: {Places: 2, MilliCPU: 2500, Bytes: 64, Devices: map[corev1.ResourceName]int64{"example.com/gpu": 3}},
		},
	})
	want := []string{
		"reservations[Pending] 0", "reservations[Available] 2", "reservations[Succeeded] 0", "reservations[Failed] 0",
		"places[kubelet] 0", "cpus[kubelet] 0", "memory[kubelet] 0", "places[berth] 2", "cpus[berth] 2.5", "memory[berth] 64", "devices[berth example.com/gpu] 3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestEveryPodThatWaitsIsCounted: gated or not, alone or in a gang, pinned or not, refused or not,
// leader or not. Pods of other schedulers, bound pods and ended pods are not counted.
func TestEveryPodThatWaitsIsCounted(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(10_000, 0))
	core := &core{clock: c}
	core.profiles.byName.Store("berth", new(settings))
	age := func(seconds int, edit func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "berth"}}
		pod.CreationTimestamp = metav1.NewTime(c.Now().Add(-time.Duration(seconds) * time.Second))
		if edit != nil {
			edit(pod)
		}
		return pod
	}
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }
	member := func(p *corev1.Pod) { p.Annotations = map[string]string{wire.GangAnnotation: "z"} } // a wrong declaration counts too
	count, longest := core.waiting([]*corev1.Pod{
		age(5, nil), age(70, nil), age(-3, nil), age(900, gated), age(8, member), age(80, member),
		age(999, func(p *corev1.Pod) { gated(p); member(p) }),
		age(2000, func(p *corev1.Pod) { p.Spec.NodeName = "n1" }),
		age(2000, func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }),
		age(2000, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
	})
	if got, want := fmt.Sprint(count), "map[gang:2 gated:2 single:3]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if longest[waitsAlone] != 70*time.Second || longest[waitsInGang] != 80*time.Second {
		t.Errorf("longest waits %v: want 70s alone, 80s in a gang", longest)
	}
}
