package ledger

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology/shapes"
)

// listing returns a report that lists the pod with these CPUs and devices, in addition to the
// kubelet's pods.
func (k *kubelet) listing(uid, cpuList string, devices ...placement.DeviceAllocation) *Report {
	k.t.Helper()
	k.seq++
	set := shapes.CPUs(cpuList)
	pod := placement.PodAllocation{UID: uid}
	if !set.IsEmpty() || len(devices) > 0 {
		pod.Containers = []placement.ContainerAllocation{{Name: "c", CPUs: set, Devices: devices}}
	}
	snap := k.State.Snapshot()
	snap.Pods = append(snap.Pods, pod)
	snap.Devices = []placement.DevicePool{{Resource: "gpu", Devices: []placement.Device{{ID: "g0"}, {ID: "g1"}}}}
	snap.SharedCPUs = snap.SharedCPUs.AndNot(&set)
	r, err := NewReport(k.seq, k.m, &snap, k.fates())
	if err != nil {
		k.t.Fatal(err)
	}
	return r
}

// TestAPromiseIsToldOnce: the watch of pods may be later than the watch of reports by a pod's whole
// life. Its events about a pod that was admitted and has left do not restore the pod's promise.
func TestAPromiseIsToldOnce(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	a := cpus("a", 2)
	reserve(t, n, a)
	_, d := post(t, n, "a")
	if l := n.Accept(k.listing("a", d.Containers[0].CPUs.String())); len(l) != 1 || !l[0].Kept {
		t.Fatalf("landings %+v", l)
	}
	n.Accept(k.report()) // the pod is gone
	n.See(Sighting{UID: "a", Request: a, Turn: 1, Promise: &Promise{Decision: d, Exact: true}})
	n.Gone("a", time.Unix(1, 0))
	if l := n.Accept(k.listing("a", "14-15")); len(l) > 0 { // a starting kubelet admits it again
		t.Errorf("told %+v, want nothing: its promise was kept before", l)
	}
	check(t, n)
}

// TestWhatIsHalfReleasedIsJudgedLater: the kubelet's managers release the resources of an ended pod
// one after another. A report from this time may be the first that is read, and older events may be
// read after it.
func TestWhatIsHalfReleasedIsJudgedLater(t *testing.T) {
	gpu := []placement.DeviceAllocation{{Resource: "gpu", IDs: []string{"g0"}}}
	for _, tc := range []struct {
		name    string
		cpus    string
		devices []placement.DeviceAllocation
		ending  bool // the API shows this after the first report
		told    int  // the report after which its promise counts as broken; 0: none
	}{
		{"devices are left", "", gpu, true, 0},
		{"CPUs are left", "1,9", nil, true, 0},
		{"half was never handed out", "1,9", nil, false, 2},
		{"other CPUs", "2,10", gpu, true, 1},
		{"other CPUs, and no device", "2,10", nil, true, 1},
		{"other devices", "", []placement.DeviceAllocation{{Resource: "gpu", IDs: []string{"g1"}}}, true, 1},
	} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := open(t, k)
		a := cpus("a", 2)
		d := placement.Decision{UID: "a", Containers: []placement.ContainerDecision{{Name: "c", CPUs: shapes.CPUs("1,9"), Devices: gpu}}}
		n.See(Sighting{UID: "a", Request: a, Turn: 1, Promise: &Promise{Decision: d, Exact: true}})
		told := 0
		for i := range 3 {
			if l := n.Accept(k.listing("a", tc.cpus, tc.devices...)); len(l) == 1 && !l[0].Kept {
				told = i + 1
			}
			if tc.ending {
				n.See(Sighting{UID: "a", Request: a, Turn: 1, Phase: Ending})
			}
			check(t, n)
		}
		if told != tc.told {
			t.Errorf("%s: told by report %d, want %d", tc.name, told, tc.told)
		}
	}
}

// TestAStandbyBlamesNobodyForWhatItsLeaderCouldNotKnow: the API shows that a pod left between a
// decision and its Binding. The leader excuses its promises of that time. A standby sees the
// promises only later.
func TestAStandbyBlamesNobodyForWhatItsLeaderCouldNotKnow(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	leader, standby := open(t, k), open(t, k)
	first, ours := cpus("first", 2), cpus("ours", 2)
	reserve(t, leader, first)
	_, one := post(t, leader, "first")
	reserve(t, leader, ours)
	p, two := post(t, leader, "ours")
	if !p.Answer.Exact {
		t.Fatalf("posting %+v", p)
	}
	for _, n := range []*Node{leader, standby} {
		n.See(Sighting{UID: "first", Request: first, Turn: 1, Promise: &Promise{Decision: one, Exact: true}})
		n.Gone("first", time.Unix(1, 0)) // by force, before it started
		n.See(Sighting{UID: "ours", Request: ours, Turn: 2, Promise: &Promise{Decision: two, Exact: true}})
	}
	k.must(cpus("ours", 2))
	r := k.report()
	for name, n := range map[string]*Node{"leader": leader, "standby": standby} {
		if l := n.Accept(r); len(l) != 1 || l[0].Kept || !l[0].Contended {
			t.Errorf("%s: told %+v, want contended", name, l)
		}
		check(t, n)
	}
}

// TestADeletionByForceIsNobodysMistake: after its watch has broken, a kubelet releases a pod that
// was deleted by force before it admits a pod that was bound earlier. A pod that is deleted with a
// grace period keeps its CPUs until its containers have stopped. By then the kubelet knows that
// Binding.
func TestADeletionByForceIsNobodysMistake(t *testing.T) {
	for _, force := range []bool{true, false} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		first, ours := cpus("first", 2), cpus("ours", 2)
		k.must(first)
		n := open(t, k)
		n.See(Sighting{UID: "first", Request: first})
		reserve(t, n, ours)
		if p, _ := post(t, n, "ours"); !p.Answer.Exact {
			t.Fatalf("posting %+v", p)
		}
		n.See(Sighting{UID: "ours", Request: ours, Turn: 1})
		n.See(Sighting{UID: "first", Request: first, Phase: Ending})
		if !force {
			n.See(Sighting{UID: "first", Request: first, Phase: Ended})
		}
		n.Gone("first", time.Unix(1, 0))
		k.End("first")
		k.ReleaseEnded()
		k.must(ours)
		if l := n.Accept(k.report()); len(l) != 1 || l[0].Kept || l[0].Contended != force {
			t.Errorf("by force %v: told %+v, want one that is not kept, contended: %v", force, l, force)
		}
		check(t, n)
	}
}

// TestTheFirstReportOwesNothing: a scheduler starts while the kubelet releases the resources of a
// pod. It knows neither the pod's resources nor, if the watch of pods is late, that the pod has
// left.
func TestTheFirstReportOwesNothing(t *testing.T) {
	for _, left := range []string{"", "1,9"} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := new(Ledger).Open(nil)
		d := placement.Decision{UID: "a", Containers: []placement.ContainerDecision{{
			Name: "c", CPUs: shapes.CPUs("1,9"), Devices: []placement.DeviceAllocation{{Resource: "gpu", IDs: []string{"g0"}}},
		}}}
		n.See(Sighting{UID: "a", Request: cpus("a", 2), Turn: 1, Promise: &Promise{Decision: d, Exact: true}, Inherited: true})
		for range 3 {
			if l := n.Accept(k.listing("a", left)); len(l) > 0 {
				t.Errorf("CPUs %q are left: told %+v", left, l)
			}
			check(t, n)
		}
	}
}

// TestAPodThatComesBackIsNobodysMistake: a starting kubelet refuses a running pod and releases its
// CPUs, and the next pods are promised these CPUs. If the kubelet is killed before it has written
// the refusal to the API, it admits the refused pod again, and before the others.
func TestAPodThatComesBackIsNobodysMistake(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	back, ours := cpus("back", 8), cpus("ours", 8)
	n.See(Sighting{UID: "back", Request: back})
	n.Accept(k.listing("back", "4-7,12-15"))
	n.Accept(k.listing("back", ""))
	reserve(t, n, ours)
	if p, d := post(t, n, "ours"); !p.Answer.Exact || d.Containers[0].CPUs != shapes.CPUs("4-7,12-15") {
		t.Fatalf("posting %+v, %+v: want what is free", p, d)
	}
	n.See(Sighting{UID: "ours", Request: ours, Turn: 1})
	k.must(cpus("ours", 2))
	if l := n.Accept(k.listing("back", "4-7,12-15")); len(l) != 1 || l[0].Kept || !l[0].Contended {
		t.Errorf("told %+v, want contended", l)
	}
	check(t, n)
}
