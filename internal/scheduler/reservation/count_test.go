package reservation

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/placement"
)

// TestCount follows the resources that are reserved but not used, until the Reservation expires.
func TestCount(t *testing.T) {
	w := newWorld(t)
	want := func(when string, phases map[koordinator.ReservationPhase]int, places int, milli int64) {
		t.Helper()
		w.told()
		c := w.rs.Count()
		held := c.Held[placement.AuthorityBerth]
		if !maps.Equal(c.Phases, phases) || held.Places != places || held.MilliCPU != milli || held.Bytes != milli/1000<<26 {
			t.Errorf("%s: %v, held %+v; want %v, %d places and %d thousandths of a CPU", when, c.Phases, held, phases, places, milli)
		}
		if _, there := c.Held[placement.AuthorityKubelet]; there {
			t.Errorf("%s: %+v where a kubelet decides", when, c.Held)
		}
	}
	want("without any", map[koordinator.ReservationPhase]int{}, 0, 0)
	uid := w.reservation("r", 4, many)
	w.reservation("wrong", 1, func(o *koordinator.Reservation) { o.Spec.PreAllocation = true })
	want("before the first cycle", map[koordinator.ReservationPhase]int{koordinator.ReservationPending: 2}, 0, 0)
	if err := w.cycle(uid); err != nil {
		t.Fatal(err)
	}
	one := map[koordinator.ReservationPhase]int{koordinator.ReservationPending: 1, koordinator.ReservationAvailable: 1}
	want("placed", one, 1, 4000)
	w.take(ownerOf("half", "r", 3))
	want("used in part", one, 1, 1000)
	w.take(ownerOf("other", "r", 1))
	want("used whole", one, 1, 0)
	w.clock.Step(25 * time.Hour)
	w.settleExpiry()
	want("expired", map[koordinator.ReservationPhase]int{koordinator.ReservationPending: 1, koordinator.ReservationFailed: 1}, 0, 0)
}

// TestCountDevices: only extended resources are devices.
func TestCountDevices(t *testing.T) {
	pod := podFor("p", 2)
	for name, n := range map[corev1.ResourceName]int64{"example.com/gpu": 3, "hugepages-2Mi": 1 << 21, "ephemeral-storage": 7} {
		pod.Spec.Containers[0].Resources.Requests[name] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	var held Unused
	held.add(pod)
	held.add(pod)
	held.add(nil)
	if held.Places != 3 || held.MilliCPU != 4000 || !maps.Equal(held.Devices, map[corev1.ResourceName]int64{"example.com/gpu": 6}) {
		t.Errorf("%+v", held)
	}
}
