package gang

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// TestAGroupWithoutPodsIsLetIn: a group whose Job belongs to this scheduler becomes Inqueue when
// its resources are free. Its pods are created after that, and it does not become Pending again.
func TestAGroupWithoutPodsIsLetIn(t *testing.T) {
	key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: "a"}
	asked := corev1.ResourceList{"cpu": resource.MustParse("6")}
	for _, c := range []struct {
		name  string
		spec  wire.Gang
		free  int64
		phase string
	}{
		{"it fits", wire.Gang{Job: "default-scheduler"}, 6, "Inqueue"},
		{"it does not fit", wire.Gang{Job: "default-scheduler", Phase: "Pending"}, 5, "Pending"},
		{"its Job is another scheduler's", wire.Gang{Job: "other", Phase: "Pending"}, 6, "Pending"},
		{"it has another owner, or none", wire.Gang{Phase: "Pending"}, 6, "Inqueue"},
		{"it runs", wire.Gang{Job: "default-scheduler", Phase: "Running"}, 6, "Running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				spec := c.spec
				var free atomic.Int64
				free.Store(c.free)
				spec.Key, spec.Version, spec.Minimum, spec.Resources = key, "5", 2, asked
				w.objects = map[wire.GangKey]wire.Gang{key: spec}
				w.groups.book.Objects = w
				w.groups.book.Room = func() (*gangfit.Room, error) {
					r := new(gangfit.Room)
					r.Offer(amounts.List{amounts.CPU: 1000 * free.Load()})
					return r, nil
				}
				w.groups.ObjectSeen(spec, nil)
				w.run(time.Minute)
				if got := w.objects[key].Phase; got != c.phase {
					t.Errorf("the phase is %q, want %q", got, c.phase)
				}
				if c.phase != "Pending" || c.spec.Job != "default-scheduler" {
					return
				}
				free.Store(6)
				w.run(time.Minute)
				if got := w.objects[key].Phase; got != "Inqueue" {
					t.Errorf("the phase is %q when room has come", got)
				}
				w.groups.ObjectSeen(w.objects[key], nil) // the scheduler's watch shows its own write
				w.create(taskOf("a", "a-0", "x"))
				w.run(time.Minute)
				if got := w.objects[key].Phase; got != "Inqueue" {
					t.Errorf("the phase is %q when the first pod has come", got)
				}
				w.create(taskOf("a", "a-1", "x"))
				w.run(time.Minute)
				w.want("a", 2, 2)
			})
		})
	}
}

// TestAClosedQueueHoldsItsGroups until it is opened, and the group's condition says so.
func TestAClosedQueueHoldsItsGroups(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: "a"}
		spec := wire.Gang{Key: key, Version: "5", Minimum: 2, Job: "default-scheduler", Queue: "night"}
		w.objects, w.queues = map[wire.GangKey]wire.Gang{key: spec}, map[string]string{"night": "Closed"}
		w.groups.book.Objects = w
		w.groups.book.Room = w.there
		w.groups.ObjectSeen(spec, nil)
		w.run(10 * time.Second)
		if got := w.objects[key].Phase; got != "Pending" || len(w.stood) == 0 || w.stood[0].lacking != `queue "night" is Closed: open it, or name another` {
			t.Errorf("the phase is %q, said was %+v", got, w.stood)
		}
		w.mu.Lock()
		w.queues["night"] = "Open"
		w.mu.Unlock()
		w.run(10 * time.Second)
		if got := w.objects[key].Phase; got != "Inqueue" {
			t.Errorf("the phase is %q when the queue is open", got)
		}
	})
}

// TestAGatedMemberIsNamed in an event and in the condition of its PodGroup, until its gate is gone.
func TestAGatedMemberIsNamed(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.object("a", 3, "1", func(g *wire.Gang) { g.Phase, g.Resources = "Inqueue", nil })
		w.create(taskOf("a", "a-0", "x"))
		for _, name := range []string{"a-1", "a-2"} {
			gated := taskOf("a", name, "x")
			gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
			w.create(gated)
		}
		w.run(time.Minute)
		const want = "PodGroup.scheduling.volcano.sh default/a is not complete: 1 of 3 pods; 2 pods have scheduling gates, such as pod a-1 with example.com/quota"
		if said := w.said(); !strings.Contains(said, "GangNotPlaced "+want) {
			t.Errorf("the events say %q", said)
		}
		if last := w.stood[len(w.stood)-1]; last.lacking != want || !last.fewPods {
			t.Errorf("the last status is %+v", last)
		}
		open := func(name string) {
			pod := w.pods[types.UID(name)].DeepCopy()
			pod.Spec.SchedulingGates = nil
			w.create(pod)
			w.run(time.Minute)
		}
		open("a-1")
		if said := w.said(); !strings.Contains(said, "2 of 3 pods; pod a-2 has the scheduling gate example.com/quota") {
			t.Errorf("the events say %q", said)
		}
		open("a-2")
		w.want("a", 3, 3)
		if last := w.stood[len(w.stood)-1]; last.lacking != "" {
			t.Errorf("the last status is %+v", last)
		}
	})
}

// TestAStatefulSetThatWaitsIsNamed: a StatefulSet creates one pod after another, if it does not say
// Parallel, and none while its first pod waits for the others.
func TestAStatefulSetThatWaitsIsNamed(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		pod := podOf("a", "web-0", 3, 1)
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "web", Controller: new(true)}}
		w.create(pod)
		w.run(gangs.ShortSilence + time.Second)
		const want = "gang default/a is not complete: 1 of 3 pods; StatefulSet web creates no other pod before pod web-0 is ready, if its podManagementPolicy is not Parallel"
		if said := w.said(); !strings.Contains(said, want) {
			t.Errorf("the events say %q", said)
		}
		pod = podOf("a", "web-1", 3, 1)
		pod.OwnerReferences = w.pods["web-0"].OwnerReferences
		w.create(pod)
		w.run(time.Minute)
		if said := w.said(); !strings.Contains(said, "2 of 3 pods") || strings.Contains(said, "StatefulSet") {
			t.Errorf("the events say %q", said)
		}
	})
}

// TestATenantsGroupsWithoutPodsHoldUpNobody: some groups of a namespace are checked together with
// those of other namespaces, and all of them after some time.
func TestATenantsGroupsWithoutPodsHoldUpNobody(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		const many = 1000
		w.objects, w.queues = map[wire.GangKey]wire.Gang{}, map[string]string{"night": "Closed"}
		w.groups.book.Objects, w.groups.book.Room = w, w.there
		see := func(namespace, name string, spec wire.Gang) wire.GangKey {
			spec.Key, spec.Version, spec.Minimum, spec.Job = wire.GangKey{Source: wire.GangOfVolcano, Namespace: namespace, Name: name}, "5", 1, "default-scheduler"
			w.mu.Lock()
			w.objects[spec.Key] = spec
			w.mu.Unlock()
			w.groups.ObjectSeen(spec, nil)
			return spec.Key
		}
		var theirs []wire.GangKey
		for i := range many {
			theirs = append(theirs, see("a-tenant", fmt.Sprint("g", i), wire.Gang{Queue: "night"}))
		}
		own := see("other", "g", wire.Gang{Resources: corev1.ResourceList{"cpu": resource.MustParse("1")}})
		w.run(time.Second)
		before := slices.IndexFunc(w.stood, func(s standing) bool { return s.phase == volcano.PodGroupInqueue })
		if got := w.objects[own].Phase; got != "Inqueue" || before > 100 {
			t.Errorf("the phase is %q, after %d writes for groups of the tenant's: want Inqueue, after 100 at most", got, before)
		}
		w.run(vacantEvery * (many/vacantShare + 2))
		for _, key := range theirs {
			if w.objects[key].Phase != "Pending" {
				t.Fatalf("group %s of the tenant's was never looked at", key)
			}
		}
		w.mu.Lock()
		w.queues["night"] = "Open"
		w.mu.Unlock()
		w.run(vacantEvery + many/vacantShare*2*statusPause)
		for _, key := range theirs {
			if got := w.objects[key].Phase; got != "Inqueue" {
				t.Fatalf("the phase of %s is %q when its queue is open", key, got)
			}
		}
	})
}

// TestFreeOfEachResource: the free amount of a node is known for every resource that kube-scheduler
// counts.
func TestFreeOfEachResource(t *testing.T) {
	asked := corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("3Gi"), "ephemeral-storage": resource.MustParse("4Gi"),
		"pods": resource.MustParse("5"), "nvidia.com/gpu": resource.MustParse("6"),
	}
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{Status: corev1.NodeStatus{Allocatable: asked}})
	room := RoomIn(info)
	for name, want := range wire.ReadResources(asked) {
		if got := room.Free(name); got != want {
			t.Errorf("%d of %s are free, want %d", got, name, want)
		}
	}
}

// TestWhatDriversStandForIsNotCounted: only DynamicResources knows how many devices of a DRA driver
// are free. They are counted on a node that has the extended resource itself.
func TestWhatDriversStandForIsNotCounted(t *testing.T) {
	asked := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2"), "cpu": resource.MustParse("1")}
	node := func(gpus string) fwk.NodeInfo {
		info := framework.NewNodeInfo()
		info.SetNode(&corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("4"), "pods": resource.MustParse("9"), "nvidia.com/gpu": resource.MustParse(gpus),
		}}})
		return info
	}
	for _, c := range []struct {
		drivers []string
		gpus    string
		short   bool // of the group's own resources
		room    bool
	}{
		{nil, "0", true, false}, {nil, "1", true, false}, {nil, "2", false, true},
		{[]string{"nvidia.com/gpu", "a.b/c"}, "0", false, true}, {[]string{"nvidia.com/gpu"}, "1", false, false}, {[]string{"a.b/c"}, "0", true, false},
	} {
		h := &fakeHandle{w: &world{drivers: c.drivers}}
		all := &trial{profile: Profile{Handle: h}, job: new(job), infos: []fwk.NodeInfo{node(c.gpus)}}
		all.job.gang.Claim = &gangfit.Claim{Asked: wire.ReadResources(asked)}
		all.claim()
		if got := all.job.gang.Ask(all).Short; (got != nil) != c.short {
			t.Errorf("drivers %v, %s GPUs: short of %v", c.drivers, c.gpus, got)
		}
		room := RoomIn(all.infos[0])
		if got := room.Has(Countable(h, wire.ReadResources(asked), room)); got != c.room {
			t.Errorf("drivers %v, %s GPUs: room %t", c.drivers, c.gpus, got)
		}
	}
}

// TestAGroupWithoutPodsThatIsGoneIsForgotten.
func TestAGroupWithoutPodsThatIsGoneIsForgotten(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: "a"}
		w.groups.book.Room = func() (*gangfit.Room, error) { return new(gangfit.Room), nil }
		w.groups.ObjectSeen(wire.Gang{Key: key, Version: "5", Minimum: 2, Job: "default-scheduler", Resources: corev1.ResourceList{"cpu": resource.MustParse("1")}}, nil)
		w.groups.ObjectGone(key)
		w.run(time.Minute)
		if len(w.groups.admitter.vacant) > 0 || w.groups.admitter.lookingAtVacant {
			t.Error("it is remembered")
		}
	})
}

// TestAnObjectInThePlaceOfAnother: after a broken watch, a list shows a new object of the same name
// as a change. The new object counts whatever its version is, because the API server's data may
// have been restored in between.
func TestAnObjectInThePlaceOfAnother(t *testing.T) {
	object := func(uid types.UID, version string, minimum int32) *volcano.PodGroup {
		g := &volcano.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: uid, ResourceVersion: version}}
		g.Spec.MinMember = minimum
		return g
	}
	was := object("1", "9", 2)
	for name, c := range map[string]struct {
		is   *volcano.PodGroup
		want int
	}{
		"older":   {object("1", "5", 3), 2},
		"newer":   {object("1", "10", 3), 3},
		"another": {object("2", "5", 3), 3},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: "a"}
				g := w.groups.book.named(key)
				h := (&APIObjects{groups: w.groups}).handler(wire.GangOfVolcano)
				h.OnAdd(was, true)
				h.OnUpdate(was, c.is)
				if g.wrong != nil || g.spec.Minimum != c.want || g.spec.UID != c.is.UID {
					t.Errorf("%v, %d of %s are wanted: want %d of %s", g.wrong, g.spec.Minimum, g.spec.UID, c.want, c.is.UID)
				}
			})
		})
	}
}
