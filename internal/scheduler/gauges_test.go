package scheduler

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/scheduler/reservation"
	"github.com/berth-dev/berth/placement"
)

// TestHeldGauges: every phase and authority has its series, also while there is nothing.
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
		Held: map[placement.Authority]reservation.Held{
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
