package scheduler

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// annotated is Volcano's controller as annotating sees it.
type annotated struct {
	*annotating
	renewed time.Time
	held    bool // by some replica
	gone    map[types.UID]bool
	// names are pods that were woken. lock guards them, because timers wake pods.
	lock  sync.Mutex
	names []string
}

func (w *annotated) woken() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.names)
}

func newAnnotated() *annotated {
	w := &annotated{renewed: time.Now(), held: true, gone: map[types.UID]bool{}}
	w.annotating = &annotating{clock: clock.RealClock{}, logger: klog.Background(), waits: func(p *corev1.Pod) bool { return !w.gone[p.UID] },
		activate: func(pods map[string]*corev1.Pod) {
			w.lock.Lock()
			defer w.lock.Unlock()
			for name := range pods {
				w.names = append(w.names, name)
			}
			slices.Sort(w.names)
		},
	}
	return w
}

// shows delivers the current lease, or an error if it cannot be read.
func (w *annotated) shows(readable bool) {
	l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: w.renewed}, HolderIdentity: new(string)}}
	if w.held {
		*l.Spec.HolderIdentity = "a"
	}
	if readable {
		w.note(l)
	}
	w.look(true)
}

func volcanosPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{SchedulerName: volcanosName}}
}

// TestPodsWaitForTheirGroup: while Volcano's controller runs, pods wait until it has annotated
// them, for a limited time. Without the controller they do not wait.
func TestPodsWaitForTheirGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := newAnnotated(), volcanosPod("a")
		if w.hold(pod) == nil {
			t.Error("a pod is tried before anybody knows if Volcano's controller runs")
		}
		w.shows(true)
		other := volcanosPod("b")
		other.Spec.SchedulerName = "berth"
		if w.hold(pod) == nil || w.hold(other) != nil {
			t.Error("want a pod of the scheduler volcano held, and no other")
		}
		with := pod.DeepCopy()
		with.Annotations = map[string]string{volcano.GroupNameAnnotation: "podgroup-1"}
		w.shown(with)
		if w.hold(with) != nil || len(w.since) > 0 {
			t.Error("a pod with its group is held, or remembered")
		}
		late := volcanosPod("late")
		w.hold(late)
		time.Sleep(annotatedWithin - time.Second)
		w.renewed = time.Now()
		w.shows(true)
		if w.hold(late) == nil || len(w.woken()) > 0 {
			t.Error("a pod is tried too early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if w.hold(late) != nil || !slices.Equal(w.woken(), []string{"ns/late"}) {
			t.Errorf("a pod waits for ever; woken were %q", w.woken())
		}
		w.gone[late.UID] = true
		if w.look(false); len(w.since) > 0 {
			t.Error("a pod that is gone is remembered")
		}
	})
}

// TestWhetherVolcanosControllerRuns: the lease shows this, whatever the clock of the controller's
// machine is.
func TestWhetherVolcanosControllerRuns(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*annotated)
		unread bool
		after  time.Duration
		want   bool
	}{
		"it renews":            {func(*annotated) {}, false, 0, true},
		"its clock is behind":  {func(w *annotated) { w.renewed = time.Now().Add(-20 * time.Minute) }, false, 0, true},
		"it is long dead":      {func(w *annotated) { w.renewed = time.Now().Add(-2 * time.Hour) }, false, 0, false},
		"it does not renew":    {func(*annotated) {}, false, leaseDies, false},
		"it has given it back": {func(w *annotated) { w.held = false }, false, 0, false},
		"nobody may read it":   {func(*annotated) {}, true, 0, false},
		"it is a while ago":    {func(*annotated) {}, false, leaseEvery, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, pod := newAnnotated(), volcanosPod("a")
				w.hold(pod)
				c.change(w)
				if w.shows(!c.unread); c.after > 0 {
					time.Sleep(c.after)
					w.look(false)
				}
				if got := w.hold(pod) != nil; got != c.want || c.want == (len(w.woken()) == 1) && c.after < annotatedWithin {
					t.Errorf("held %t, woken %q: want held %t", got, w.woken(), c.want)
				}
			})
		})
	}
}

// TestTheLeaseIsWatched: the plugin notices at once when the controller gets its lease, and when it
// loses the lease.
func TestTheLeaseIsWatched(t *testing.T) {
	client := fake.NewClientset()
	leases := client.CoordinationV1().Leases("volcano-system")
	woken := make(chan string, 1)
	a := &annotating{clock: clock.RealClock{}, logger: klog.Background(), waits: func(*corev1.Pod) bool { return true },
		activate: func(pods map[string]*corev1.Pod) {
			for name := range pods {
				woken <- name
			}
		}}
	a.hold(volcanosPod("first"))
	go a.follow(t.Context(), client, types.NamespacedName{Namespace: "volcano-system", Name: "vc-controller-manager"})
	if got := <-woken; got != "ns/first" {
		t.Errorf("%s is tried when there is no lease", got)
	}
	holder := "a"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "vc-controller-manager"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: time.Now()}}}
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for a.hold(volcanosPod("second")) == nil {
		runtime.Gosched()
	}
	if err := leases.Delete(t.Context(), lease.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-woken; got != "ns/second" {
		t.Errorf("%s is tried when the lease is gone", got)
	}
}

// TestAForbiddenLeaseHoldsNoPods: if the plugin may not read the lease, it places pods without
// waiting for Volcano's controller.
func TestAForbiddenLeaseHoldsNoPods(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "vc-controller-manager", nil)
	})
	client.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "vc-controller-manager", nil)
	})
	woken := make(chan string, 1)
	a := &annotating{clock: clock.RealClock{}, logger: klog.Background(), waits: func(*corev1.Pod) bool { return true },
		activate: func(pods map[string]*corev1.Pod) {
			for name := range pods {
				woken <- name
			}
		}}
	if a.hold(volcanosPod("first")) == nil {
		t.Fatal("the pod is not held before the lease was read")
	}
	go a.follow(t.Context(), client, types.NamespacedName{Namespace: "volcano-system", Name: "vc-controller-manager"})
	if got := <-woken; got != "ns/first" {
		t.Errorf("%s is tried", got)
	}
	if a.hold(volcanosPod("second")) != nil {
		t.Error("a pod is held although the lease may not be read")
	}
}
