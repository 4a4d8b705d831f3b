package reservation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

const gpus = "example.com/gpu"

// giveGPUs makes the node report four GPUs at two root complexes. Berth chooses among them.
func (w *world) giveGPUs() {
	kind, pool := placement.DeviceKind{Resource: gpus, Type: topology.GPU}, placement.DevicePool{Resource: gpus, Decided: true}
	for i := range 4 {
		id := fmt.Sprintf("0000:%d0:00.0", i+1)
		kind.Devices = append(kind.Devices, placement.PlacedDevice{ID: id, HasNUMA: true, Root: fmt.Sprint(i / 2)})
		pool.Devices = append(pool.Devices, placement.Device{ID: id})
	}
	m := made.Model(w.t, "package:1 numa:1 core:9 pu:1 mem:8Gi", placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0", Devices: []placement.DeviceKind{kind}})
	r, err := ledger.NewReport(2, m, &placement.Snapshot{Devices: []placement.DevicePool{pool}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.account.Accept(r)
}

// withGPUs adds GPUs to a pod's requests.
func withGPUs(pod *corev1.Pod, n int64) *corev1.Pod {
	for _, list := range []corev1.ResourceList{pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits} {
		list[gpus] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return pod
}

// devicesOf returns the ids of the devices in a decision.
func devicesOf(d *placement.Decision) (ids []string) {
	for i := range d.Containers {
		for _, a := range d.Containers[i].Devices {
			ids = append(ids, a.IDs...)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestDevices: devices are reserved by id, even after the scheduler restarts. Other pods get none
// of them, and owners get them.
func TestDevices(t *testing.T) {
	w := newWorld(t)
	w.giveGPUs()
	uid := w.reservation("r", 4, many, restricted, func(o *koordinator.Reservation) { withGPUs(&corev1.Pod{Spec: o.Spec.Template.Spec}, 2) })
	if err := w.cycle(uid); err != nil {
		t.Fatal(err)
	}
	w.told()
	p, found, err := wire.ReadPlacement(&corev1.Pod{ObjectMeta: w.objects[uid].ObjectMeta})
	if err != nil || !found {
		t.Fatalf("%t, %v", found, err)
	}
	held := devicesOf(&p.Decision)
	if got := w.objects[uid].Status.Allocatable[gpus]; len(held) != 2 || got.Value() != 2 {
		t.Fatalf("held are %v; %+v", held, w.objects[uid].Status)
	}
	for _, anew := range []bool{false, true} {
		if anew {
			w.account.Release(string(uid))
			w.begin()
			w.told()
		}
		if c := w.rs.Count().Held[placement.AuthorityBerth]; c.Devices[gpus] != 2 {
			t.Errorf("anew %t: counted are %+v", anew, c)
		}
		if a := w.account.View().Ask(ledger.Question{Candidate: candidate(t, withGPUs(podFor("stranger", 1), 3))}); a.Outcome != ledger.Refused {
			t.Errorf("anew %t: a stranger gets what is held: %+v", anew, a)
		}
	}
	var given []string
	for _, name := range []string{"one", "two"} {
		owner := withGPUs(ownerOf(name, "r", 1), 1)
		w.rs.Between()
		w.rs.Begins(owner)
		from, _ := w.rs.Open(owner)
		var d placement.Decision
		if a := w.account.ReserveOwner(candidate(t, owner), from, &d); !a.OK() {
			t.Fatalf("%s: %+v", name, a)
		}
		w.rs.Took(owner)
		given = append(given, devicesOf(&d)...)
	}
	slices.Sort(given)
	if !slices.Equal(given, held) {
		t.Errorf("owners have %v, held were %v", given, held)
	}
	w.rs.Between()
	w.rs.Begins(withGPUs(ownerOf("three", "r", 1), 1))
	if from, _ := w.rs.Open(ownerOf("three", "r", 1)); from != "" {
		t.Error("a third owner is sent where no device is left")
	}
}

// TestForgedDevices: an object whose annotation has more devices than its template requests is
// ignored.
func TestForgedDevices(t *testing.T) {
	w := newWorld(t)
	w.giveGPUs()
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: placement.Decision{
		UID: "r-uid", Containers: []placement.ContainerDecision{{Name: "c", CPUs: topology.NewCPUSet(1), Hint: placement.Hint{Any: true}, Devices: []placement.DeviceAllocation{{Resource: gpus, IDs: []string{"0000:10:00.0", "0000:20:00.0"}}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	uid := w.reservation("r", 1, func(o *koordinator.Reservation) {
		withGPUs(&corev1.Pod{Spec: o.Spec.Template.Spec}, 1)
		o.Annotations = map[string]string{wire.PlacementAnnotation: text}
		o.Status = koordinator.ReservationStatus{Phase: koordinator.ReservationAvailable, NodeName: "n"}
	})
	if w.phase(uid) != koordinator.ReservationPending || !strings.Contains(w.objects[uid].Status.Conditions[0].Message, gpus) {
		t.Errorf("%+v", w.objects[uid].Status)
	}
}

// TestStaleWords: annotations about an earlier place are removed with the next one.
func TestStaleWords(t *testing.T) {
	has := map[string]string{wire.PlacementAnnotation: "{", wire.KoordinatorDevicesAnnotation: "{}", "other": "stays"}
	now := withoutStale(has, map[string]any{wire.PlacementAnnotation: "new", wire.KoordinatorStatusAnnotation: "new"})
	if len(now) != 3 || now[wire.PlacementAnnotation] != "new" || now[wire.KoordinatorDevicesAnnotation] != nil {
		t.Errorf("%v", now)
	}
	if now := withoutStale(has, nil); len(now) != 2 || now[wire.PlacementAnnotation] != nil {
		t.Errorf("where a kubelet decides: %v", now)
	}
	if now := withoutStale(nil, nil); len(now) > 0 {
		t.Errorf("%v", now)
	}
}
