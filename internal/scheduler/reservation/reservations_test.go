package reservation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/lead"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// world has everything around a scheduler: its cache, its queue, the API, and one obeying node.
type world struct {
	t       *testing.T
	clock   *clocktesting.FakeClock
	account *ledger.Node
	rs      *Reservations
	// cached is the scheduler's cache, queued its queue, and objects are those of the API.
	cached, queued map[types.UID]*corev1.Pod
	objects        map[types.UID]*koordinator.Reservation
	versions       int
	refuse         error // the API's answer to writes
	activated      chan string
	nodeGone       bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), objects: map[types.UID]*koordinator.Reservation{}}
	m := made.Model(t, "package:1 numa:1 core:9 pu:1 mem:8Gi", placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"})
	w.account = made.Account(t, m, m.NewState())
	w.begin()
	return w
}

// begin starts a new scheduler, which leads.
func (w *world) begin() {
	w.beginIdle()
	w.rs.Between()
}

// beginIdle starts a new scheduler, which does not lead.
func (w *world) beginIdle() {
	w.cached, w.queued, w.activated = map[types.UID]*corev1.Pod{}, map[types.UID]*corev1.Pod{}, make(chan string, 100)
	w.rs = New(Options{
		Clock: w.clock, Logger: klog.Background(), Lead: new(lead.Gate), Events: events.NewFakeRecorder(1000),
		Account: func(string) *ledger.Node { return w.account }, HasNode: func(string) bool { return !w.nodeGone },
		Changed: func(string, *corev1.Pod) {}, Done: func(string) {}, Ours: func(name string) bool { return name == "berth" },
	})
	w.rs.writer = w
	w.rs.Attach(w, w)
	w.rs.allRead()
}

func (w *world) AddPod(_ klog.Logger, pod *corev1.Pod) error {
	if w.cached[pod.UID] != nil {
		return errors.New("it is there")
	}
	w.cached[pod.UID] = pod
	return nil
}

func (w *world) UpdatePod(_ klog.Logger, old, now *corev1.Pod) error {
	if w.cached[old.UID] == nil || old.Spec.NodeName != now.Spec.NodeName {
		w.t.Errorf("%s is not in the cache, or moves", old.Name)
	}
	w.cached[now.UID] = now
	return nil
}

func (w *world) RemovePod(_ klog.Logger, pod *corev1.Pod) error {
	if w.cached[pod.UID] == nil {
		w.t.Errorf("%s is not in the cache", pod.Name)
	}
	delete(w.cached, pod.UID)
	return nil
}

func (w *world) Add(_ context.Context, pod *corev1.Pod)       { w.queued[pod.UID] = pod }
func (w *world) Update(_ context.Context, _, pod *corev1.Pod) { w.queued[pod.UID] = pod }
func (w *world) Delete(pod *corev1.Pod)                       { delete(w.queued, pod.UID) }
func (w *world) Done(types.UID)                               {}
func (w *world) SchedulingCycle() int64                       { return 0 }

func (w *world) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for name := range pods {
		w.activated <- name
	}
}

func (w *world) PutBack(_ klog.Logger, info *framework.QueuedPodInfo, _ int64) error {
	w.queued[info.Pod.UID] = info.Pod
	return nil
}

// write changes an object that has this version. The change is shown at once.
func (w *world) write(name, version string, change func(*koordinator.Reservation)) (string, error) {
	if w.refuse != nil {
		return "", w.refuse
	}
	for uid, o := range w.objects {
		if o.Name != name {
			continue
		}
		if o.ResourceVersion != version {
			return "", fmt.Errorf("%s is of version %s, not %s", name, o.ResourceVersion, version)
		}
		now := o.DeepCopy()
		change(now)
		w.versions++
		now.ResourceVersion = fmt.Sprint(w.versions)
		w.objects[uid] = now
		return now.ResourceVersion, nil
	}
	return "", errors.New("there is no " + name)
}

func (w *world) Annotate(_ context.Context, name, version string, annotations map[string]any) (string, error) {
	return w.write(name, version, func(o *koordinator.Reservation) {
		o.Annotations = map[string]string{}
		for key, value := range annotations {
			if text, ok := value.(string); ok {
				o.Annotations[key] = text
			}
		}
	})
}

func (w *world) Status(_ context.Context, name, version string, status *koordinator.ReservationStatus) (string, error) {
	return w.write(name, version, func(o *koordinator.Reservation) { o.Status = *status })
}

// told makes the API's watch show all objects.
func (w *world) told() {
	w.t.Helper()
	for uid := range w.objects {
		w.rs.ObjectSeen(w.objects[uid])
		if err := w.rs.write(w.t.Context(), uid); err != nil && w.refuse == nil {
			w.t.Error(err)
		}
	}
	for _, o := range w.objects {
		w.rs.ObjectSeen(o)
	}
}

// reservation makes an object that reserves this number of CPUs for pods with a label of its name.
func (w *world) reservation(name string, cpus int, change ...func(*koordinator.Reservation)) types.UID {
	w.versions++
	o := &koordinator.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), ResourceVersion: fmt.Sprint(w.versions), CreationTimestamp: metav1.NewTime(w.clock.Now())},
		Spec: koordinator.ReservationSpec{
			Template: &corev1.PodTemplateSpec{Spec: *podFor("t", cpus).Spec.DeepCopy()},
			Owners:   []koordinator.ReservationOwner{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": name}}}},
		},
	}
	for _, edit := range change {
		edit(o)
	}
	w.objects[o.UID] = o
	w.rs.ObjectSeen(o)
	return o.UID
}

func many(o *koordinator.Reservation) {
	no := false
	o.Spec.AllocateOnce = &no
}

func podFor(name string, cpus int) *corev1.Pod {
	list := corev1.ResourceList{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI), "memory": *resource.NewQuantity(int64(cpus)<<26, resource.BinarySI)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{SchedulerName: "berth", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}}},
	}
}

func ownerOf(name, of string, cpus int) *corev1.Pod {
	p := podFor(name, cpus)
	p.Labels = map[string]string{"of": of}
	return p
}

func candidate(t *testing.T, pod *corev1.Pod) *ledger.Candidate {
	ask, err := wire.ReadPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &ledger.Candidate{Request: &ask.Request}
}

// cycle plays the cycle of the pod that stands for a Reservation.
func (w *world) cycle(uid types.UID) error {
	w.t.Helper()
	w.rs.Between()
	pod := w.queued[uid]
	if pod == nil {
		w.t.Fatalf("%s is not in the queue", uid)
	}
	delete(w.queued, uid)
	w.rs.Begins(pod)
	return w.placed(uid)
}

// placed finds a place for a Reservation and writes it.
func (w *world) placed(uid types.UID) error {
	w.t.Helper()
	pod := w.rs.all[uid].read.Pod
	var d placement.Decision
	if a := w.account.Reserve(candidate(w.t, pod), &d); !a.OK() {
		w.rs.Failed(&framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pod}}, fwk.NewStatus(fwk.Unschedulable, "no room"))
		return errors.New("no room")
	}
	got, _ := w.account.View().Promised(string(uid))
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: got})
	if err != nil {
		w.t.Fatal(err)
	}
	err = w.rs.Place(w.t.Context(), uid, "n", &got, map[string]any{wire.PlacementAnnotation: text})
	if err != nil {
		w.account.Forget(string(uid))
		w.rs.Failed(&framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pod}}, fwk.AsStatus(err))
	}
	return err
}

// take plays the cycle of an owner, up to its Binding. It returns the CPUs that the owner got, and
// whether it uses a Reservation.
func (w *world) take(pod *corev1.Pod) (cpus topology.CPUSet, sent bool) {
	w.t.Helper()
	w.rs.Between()
	w.rs.Begins(pod)
	uid, node := w.rs.Open(pod)
	if uid == "" {
		return cpus, false
	}
	var d placement.Decision
	if a := w.account.ReserveOwner(candidate(w.t, pod), uid, &d); !a.OK() {
		w.rs.InVain(pod, uid, "it waits")
		return cpus, true
	}
	w.rs.Took(pod)
	if _, err := w.account.Post(string(pod.UID), &d); err != nil {
		w.t.Fatal(err)
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName, bound.Annotations = node, map[string]string{wire.AllocatedAnnotation: w.rs.Allocated(uid)}
	bindFor(bound, types.UID(uid))
	w.account.See(ledger.Sighting{UID: string(pod.UID), Request: candidate(w.t, pod).Request, Turn: 1, Promise: &ledger.Promise{Decision: d, Exact: true}})
	w.rs.PodSeen(bound)
	for i := range d.Containers {
		cpus = cpus.Or(&d.Containers[i].CPUs)
	}
	return cpus, true
}

func (w *world) free() int {
	s, ok := w.account.View().Snapshot()
	if !ok {
		w.t.Fatal("no state")
	}
	return s.SharedCPUs.Len() - 1 // one is reserved
}

func (w *world) phase(uid types.UID) koordinator.ReservationPhase {
	w.told()
	return w.objects[uid].Status.Phase
}

// restricted limits owners to the reserved resources.
func restricted(o *koordinator.Reservation) { o.Spec.AllocatePolicy = koordinator.AllocateRestricted }

// TestAnOwnerThatAsksForMore: it gets the reserved resources, and the rest from the node, with the
// policy Aligned and with no policy. The cache and the account then have nothing reserved.
func TestAnOwnerThatAsksForMore(t *testing.T) {
	for _, policy := range []koordinator.ReservationAllocatePolicy{"", koordinator.AllocateAligned} {
		w := newWorld(t)
		uid := w.reservation("r", 4, many, func(o *koordinator.Reservation) { o.Spec.AllocatePolicy = policy })
		if err := w.cycle(uid); err != nil {
			t.Fatal(err)
		}
		big := ownerOf("big", "r", 6)
		cpus, sent := w.take(big)
		if !sent || cpus.Len() != 6 || w.cached[uid] != nil || w.free() != 2 {
			t.Errorf("%q: %t, it has %s; cached is %+v, %d CPUs are free", policy, sent, cpus, w.cached[uid], w.free())
		}
		if allocated := w.objects[uid].Status.Allocated; allocated.Cpu().Value() > 4 {
			t.Errorf("%q: %v is allocated of 4 CPUs", policy, allocated)
		}
		if _, sent := w.take(ownerOf("late", "r", 1)); sent {
			t.Errorf("%q: nothing is left, and an owner is sent there", policy)
		}
	}
}

// TestAReplicaThatDoesNotLead makes no decision that the object contradicts. When it begins to
// lead, it makes the decisions that are still due.
func TestAReplicaThatDoesNotLead(t *testing.T) {
	hours := func(n time.Duration) func(*koordinator.Reservation) {
		return func(o *koordinator.Reservation) { o.Spec.TTL = &metav1.Duration{Duration: n * time.Hour} }
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		uid := w.reservation("r", 4, many, hours(1))
		if err := w.cycle(uid); err != nil {
			t.Fatal(err)
		}
		ends := func() { // ends the process; the API keeps the object
			w.rs.ObjectGone(uid)
			w.rs.dirty.ShutDown()
		}
		ends()
		w.beginIdle()
		defer func() { ends() }()
		change := func(what string, node string, edit func(*koordinator.Reservation)) {
			t.Helper()
			if _, err := w.write("r", w.objects[uid].ResourceVersion, edit); err != nil {
				t.Fatal(err)
			}
			w.rs.ObjectSeen(w.objects[uid])
			if held := w.cached[uid]; (held == nil) != (node == "") || held != nil && held.Spec.NodeName != node {
				t.Errorf("%s: held is %+v, want it on node %q", what, held, node)
			}
		}
		w.rs.ObjectSeen(w.objects[uid])
		stays := func(what string) {
			t.Helper()
			synctest.Wait()
			if w.cached[uid] == nil {
				t.Errorf("%s: nothing is held any more", what)
			}
		}
		w.clock.Step(2 * time.Hour)
		stays("it has expired here")
		change("it was given more time", "n", hours(24))
		w.nodeGone = true
		w.rs.NodeGone("n")
		w.clock.Step(nodeGrace)
		stays("its node is missed here")
		change("its node was missed here alone", "n", func(*koordinator.Reservation) {})
		w.nodeGone = false
		change("it lost its place", "", func(o *koordinator.Reservation) {
			o.Status.NodeName, o.Status.Phase = "", koordinator.ReservationPending
		})
		change("it got another", "n2", func(o *koordinator.Reservation) {
			o.Status.NodeName, o.Status.Phase = "n2", koordinator.ReservationAvailable
		})
		w.rs.Between()
		if phase := w.phase(uid); phase != koordinator.ReservationAvailable || w.objects[uid].Status.NodeName != "n2" {
			t.Errorf("the new leader says %s on %s, want Available on n2", phase, w.objects[uid].Status.NodeName)
		}
		ends()
		w.beginIdle()
		w.rs.ObjectSeen(w.objects[uid])
		w.clock.Step(24 * time.Hour)
		synctest.Wait()
		w.rs.Between()
		w.clock.Step(time.Second)
		synctest.Wait()
		if phase := w.phase(uid); phase != koordinator.ReservationFailed {
			t.Errorf("one that expired before this process led is %s, want Failed", phase)
		}
	})
}

// TestAPlaceGivenBackWakes: an owner that found no room in a Reservation is tried again when
// another owner could not be bound.
func TestAPlaceGivenBackWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { w.rs.dirty.ShutDown() }()
		uid := w.reservation("r", 4, many)
		if err := w.cycle(uid); err != nil {
			t.Fatal(err)
		}
		a := ownerOf("a", "r", 4)
		w.rs.Between()
		w.rs.Begins(a)
		w.rs.Took(a)
		if _, sent := w.take(ownerOf("b", "r", 4)); sent {
			t.Fatal("b is sent to a place that a has")
		}
		w.rs.Between()
		w.rs.GaveBack(a, string(uid))
		synctest.Wait()
		if len(w.activated) != 1 || <-w.activated != "ns/b" {
			t.Error("nobody is tried, or somebody else, want b alone")
		}
	})
}

func TestALife(t *testing.T) {
	w := newWorld(t)
	uid := w.reservation("r", 4, restricted)
	if err := w.cycle(uid); err != nil {
		t.Fatal(err)
	}
	if held := w.cached[uid]; w.phase(uid) != koordinator.ReservationAvailable || held == nil || *held.Spec.Priority != wire.HeldPriority || w.free() != 4 {
		t.Fatalf("%+v, in the cache %+v, %d CPUs are free", w.objects[uid].Status, held, w.free())
	}
	if _, sent := w.take(podFor("stranger", 1)); sent {
		t.Error("a stranger is sent there")
	}
	if cpus, sent := w.take(ownerOf("big", "r", 5)); sent {
		t.Errorf("an owner for whom it is too small is sent there, and has %s", cpus)
	}
	cpus, sent := w.take(ownerOf("own", "r", 3))
	if !sent || cpus.Len() != 3 || w.phase(uid) != koordinator.ReservationSucceeded {
		t.Errorf("the owner has %s, %t; %+v", cpus, sent, w.objects[uid].Status)
	}
	if len(w.cached) > 0 || w.free() != 5 {
		t.Errorf("used up, and held are %v; %d CPUs are free", w.cached, w.free())
	}
	if _, sent := w.take(ownerOf("late", "r", 1)); sent {
		t.Error("it is used up, and an owner is sent there")
	}
}

// TestHalfUsed: a scheduler restarts while a Reservation is half used. Pods may be shown before
// Reservations.
func TestHalfUsed(t *testing.T) {
	for _, podsFirst := range []bool{true, false} {
		w := newWorld(t)
		uid := w.reservation("r", 4, many)
		if err := w.cycle(uid); err != nil {
			t.Fatal(err)
		}
		place := w.objects[uid]
		one := ownerOf("one", "r", 2)
		first, _ := w.take(one)
		w.told()
		w.account.Release(string(uid)) // a new process has the pods in its account, from their Bindings
		w.begin()
		bound := one.DeepCopy()
		bound.Spec.NodeName, bound.Annotations = "n", map[string]string{wire.AllocatedAnnotation: `{"name":"r","uid":"r-uid"}`}
		bindFor(bound, uid)
		if podsFirst {
			w.rs.PodSeen(bound)
		}
		w.told()
		if !podsFirst {
			w.rs.PodSeen(bound)
		}
		if w.phase(uid) != koordinator.ReservationAvailable || len(w.objects[uid].Status.CurrentOwners) != 1 || w.free() != 4 {
			t.Fatalf("%+v of %+v; %d CPUs are free", w.objects[uid].Status, place.Status, w.free())
		}
		second, sent := w.take(ownerOf("two", "r", 2))
		if both := first.Or(&second); !sent || second.Len() != 2 || both.Len() != 4 || w.free() != 4 {
			t.Errorf("owners have %s and %s; %d CPUs are free", first, second, w.free())
		}
		w.rs.PodGone(bound)
		if got := w.cached[uid]; got == nil || got.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
			t.Errorf("one has gone, and the cache holds %+v", got)
		}
	}
}

// TestForgedStatus: a status cannot reserve CPUs of another pod. The Reservation is placed again.
func TestForgedStatus(t *testing.T) {
	w := newWorld(t)
	var d placement.Decision
	w.account.Reserve(candidate(t, podFor("pod", 4)), &d)
	forged := d
	forged.UID = "r-uid"
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: forged})
	if err != nil {
		t.Fatal(err)
	}
	uid := w.reservation("r", 4, func(o *koordinator.Reservation) {
		o.Annotations = map[string]string{wire.PlacementAnnotation: text}
		o.Status = koordinator.ReservationStatus{Phase: koordinator.ReservationAvailable, NodeName: "n"}
	})
	w.rs.Between()
	if w.phase(uid) != koordinator.ReservationPending || w.objects[uid].Status.NodeName != "" || w.queued[uid] == nil || len(w.cached) > 0 {
		t.Fatalf("%+v, queued %v, cached %v", w.objects[uid].Status, w.queued, w.cached)
	}
	if m := w.objects[uid].Status.Conditions[0].Message; !strings.Contains(m, "not free") {
		t.Errorf("it says %q", m)
	}
	if err := w.cycle(uid); err != nil || w.free() != 0 || w.phase(uid) != koordinator.ReservationAvailable {
		t.Errorf("%v, %d CPUs are free, %+v", err, w.free(), w.objects[uid].Status)
	}
	more := w.reservation("more", 4, func(o *koordinator.Reservation) {
		o.Annotations = map[string]string{wire.PlacementAnnotation: "{"}
		o.Status = koordinator.ReservationStatus{Phase: koordinator.ReservationAvailable, NodeName: "n"}
	})
	if w.phase(more) != koordinator.ReservationPending {
		t.Errorf("an annotation that cannot be read: %+v", w.objects[more].Status)
	}
}

// TestEnds: however a Reservation ends, none of its resources stay reserved.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*world, types.UID)
		phase  koordinator.ReservationPhase
		reason string
	}{
		"expired": {func(w *world, _ types.UID) { w.clock.Step(25 * time.Hour); w.settleExpiry() }, koordinator.ReservationFailed, "Expired"},
		"node gone": {func(w *world, uid types.UID) {
			w.nodeGone = true
			w.rs.NodeGone("n")
			w.clock.SetTime(w.clock.Now().Add(nodeGrace))
			w.rs.lost(uid)
		}, koordinator.ReservationFailed, nodeGone},
		"deleted": {func(w *world, uid types.UID) {
			delete(w.objects, uid)
			w.rs.ObjectGone(uid)
		}, "", ""},
		"foreign": {func(w *world, uid types.UID) {
			o := w.objects[uid].DeepCopy()
			o.Spec.Template.Spec.SchedulerName = "koord-scheduler"
			delete(w.objects, uid)
			w.rs.ObjectSeen(o)
		}, "", ""},
		"failed by somebody else": {func(w *world, uid types.UID) { w.objects[uid].Status.Phase = koordinator.ReservationFailed }, koordinator.ReservationFailed, "Available"},
	} {
		for _, place := range []bool{true, false} {
			t.Run(fmt.Sprint(name, place), func(t *testing.T) {
				w := newWorld(t)
				uid := w.reservation("r", 4)
				if place {
					if err := w.cycle(uid); err != nil {
						t.Fatal(err)
					}
				}
				w.told()
				c.end(w, uid)
				if place || c.reason != nodeGone {
					w.told()
					if o := w.objects[uid]; o != nil && o.Status.Phase != c.phase {
						t.Errorf("%+v, want %s", o.Status, c.phase)
					}
					if len(w.cached)+len(w.queued) > 0 || w.free() != 8 {
						t.Errorf("in the cache %v, in the queue %v; %d CPUs are free", w.cached, w.queued, w.free())
					}
				}
			})
		}
	}
}

// settleExpiry waits for calls by the clock, which are in other goroutines.
func (w *world) settleExpiry() {
	for uid := range w.objects {
		w.rs.expire(uid)
	}
}

// TestNothingLeaks: in whatever order objects come and go, nothing is reserved in the end.
func TestNothingLeaks(t *testing.T) {
	for seed := range uint64(30) {
		w, rng := newWorld(t), rand.New(rand.NewPCG(seed, 1))
		var uids []types.UID
		owners := map[string]*corev1.Pod{}
		for i := range 60 {
			w.rs.Between()
			switch rng.IntN(8) {
			case 0, 1:
				once := rng.IntN(2) == 0
				uids = append(uids, w.reservation(fmt.Sprint("r", i), 1+rng.IntN(4), func(o *koordinator.Reservation) { o.Spec.AllocateOnce = &once }))
			case 2, 3:
				for uid := range w.queued {
					_ = w.cycle(uid) // it may not fit
					break
				}
			case 4, 5:
				if len(uids) > 0 {
					of := strings.TrimSuffix(string(uids[rng.IntN(len(uids))]), "-uid")
					pod := ownerOf(fmt.Sprint("p", i), of, 1+rng.IntN(3))
					if cpus, _ := w.take(pod); !cpus.IsEmpty() {
						owners[pod.Name] = pod
					}
				}
			case 6:
				for name, pod := range owners {
					w.rs.PodGone(pod)
					w.account.Gone(name, w.clock.Now())
					delete(owners, name)
					break
				}
			case 7:
				if len(uids) > 0 {
					uid := uids[rng.IntN(len(uids))]
					delete(w.objects, uid)
					w.rs.ObjectGone(uid)
				}
			}
			w.told()
			if err := w.account.View().Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for uid := range w.objects {
			delete(w.objects, uid)
			w.rs.ObjectGone(uid)
		}
		w.rs.Between()
		for name, pod := range owners {
			w.rs.PodGone(pod)
			w.account.Gone(name, w.clock.Now())
		}
		w.account.ForgetGone(w.clock.Now().Add(time.Hour), time.Minute)
		if w.free() != 8 || len(w.cached)+len(w.queued)+len(w.rs.all)+len(w.rs.users.of)+len(w.rs.users.bookOf) > 0 {
			t.Fatalf("seed %d: %d of 8 CPUs are free; cached %v, queued %v, users %v", seed, w.free(), w.cached, w.queued, w.rs.users.of)
		}
	}
}
