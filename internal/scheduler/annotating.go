package scheduler

import (
	"context"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/wire"
)

// annotating holds pods until Volcano's own controller annotates them with a group. Shortly after
// the creation of a pod that names the scheduler volcano and no group, the controller adds the
// annotation (pkg/controllers/podgroup). Volcano's scheduler waits for the annotation, because it
// places no pod without a group. If Berth did not wait, it would place such a pod without its
// group.
type annotating struct {
	clock    clock.WithDelayedExecution
	logger   klog.Logger
	activate func(pods map[string]*corev1.Pod)
	// waits reports whether a pod exists and has no node.
	waits func(*corev1.Pod) bool
	mu    sync.Mutex
	// asked means that the scheduler has read the Lease of Volcano's controller, or is not allowed
	// to read it. lives means that the controller renewed the Lease recently (leaseDies).
	asked, lives bool
	// renewed is the last renewal time in the Lease, by the controller's clock. seen is the time at
	// which this process received that Lease, by its own clock.
	renewed, seen time.Time
	// since has the pods that are held without a group, with the time when they were first held.
	since map[types.UID]held
}

type held struct {
	pod  *corev1.Pod
	from time.Time
}

const (
	// volcanosName is the scheduler name of pods that Volcano's controller annotates by default.
	volcanosName = "volcano"
	// annotatedWithin is the maximum time that a pod waits for its group. Then it is placed without
	// a group, because this part of Volcano's controller may be disabled.
	annotatedWithin = 30 * time.Second
	// leaseEvery is the interval at which the age of the last renewal is checked. If this process
	// sees no renewal for leaseDies, or the renewal time is older than leaseForgotten, the
	// controller counts as dead.
	leaseEvery     = 5 * time.Second
	leaseDies      = 30 * time.Second
	leaseForgotten = time.Hour
)

const waitsForGroup = "Berth: Volcano's controller has not given the pod its group yet"

// hold returns the reason why the scheduler must not try the pod now, or nil if it may.
func (a *annotating) hold(pod *corev1.Pod) *fwk.Status {
	if pod.Spec.SchedulerName != volcanosName || wire.InGang(pod) || pod.Spec.NodeName != "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked && !a.lives {
		return nil
	}
	now := a.clock.Now()
	h, known := a.since[pod.UID]
	if !known {
		h.from = now
		uid := pod.UID
		later.Call(a.clock, annotatedWithin, func() { a.over(uid) })
	}
	h.pod = pod
	if a.since == nil {
		a.since = map[types.UID]held{}
	}
	a.since[pod.UID] = h
	if now.Sub(h.from) >= annotatedWithin {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, waitsForGroup)
}

// over activates a pod that is still held after annotatedWithin.
func (a *annotating) over(uid types.UID) {
	a.mu.Lock()
	h, still := a.since[uid]
	a.mu.Unlock()
	if still {
		a.logger.Info("Volcano's controller has not given a pod its group in time: it is placed without a group", "pod", klog.KObj(h.pod), "waited", annotatedWithin)
		a.activate(map[string]*corev1.Pod{h.pod.Namespace + "/" + h.pod.Name: h.pod})
	}
}

// shown stops holding a pod when the watch shows that it has a group or a node. The pod's gang then
// decides when the scheduler tries the pod.
func (a *annotating) shown(pod *corev1.Pod) {
	if pod.Spec.SchedulerName == volcanosName && (wire.InGang(pod) || pod.Spec.NodeName != "") {
		a.gone(pod)
	}
}

func (a *annotating) gone(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, pod.UID)
}

// follow watches the Lease until ctx ends. Until the Lease has been read once, or the API server
// has forbidden reading it, the controller counts as alive, and pods without a group are held.
func (a *annotating) follow(ctx context.Context, client kubernetes.Interface, lease types.NamespacedName) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(lease.Namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, lease.Name).String()
	}))
	informer := factory.Coordination().V1().Leases().Informer()
	handle := func(obj any) {
		if found := obj.(*coordinationv1.Lease); found.Name == lease.Name {
			a.note(found)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, now any) { handle(now) },
		DeleteFunc: func(any) { a.note(new(coordinationv1.Lease)) },
	})
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				a.look(true)
			}
			cache.DefaultWatchErrorHandler(ctx, r, err)
		})
	}
	if err != nil {
		a.logger.Error(err, "The Lease of Volcano's controller cannot be watched", "lease", lease)
		return
	}
	go informer.RunWithContext(klog.NewContext(ctx, a.logger))
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			a.look(true)
		}
	}()
	for later.Wait(ctx, a.clock, leaseEvery) {
		a.look(false)
	}
}

// look updates a.asked and a.lives. If the controller is known to be dead (asked is set, and lives
// is not), look activates the held pods.
func (a *annotating) look(asked bool) {
	a.mu.Lock()
	a.asked = a.asked || asked
	now := a.clock.Now()
	a.lives = !a.seen.IsZero() && now.Sub(a.seen) < leaseDies && now.Sub(a.renewed) < leaseForgotten
	maps.DeleteFunc(a.since, func(_ types.UID, h held) bool { return !a.waits(h.pod) })
	free := map[string]*corev1.Pod{}
	if a.asked && !a.lives {
		for _, h := range a.since {
			free[h.pod.Namespace+"/"+h.pod.Name] = h.pod
		}
		a.since = nil
	}
	a.mu.Unlock()
	if len(free) > 0 {
		a.activate(free)
	}
}

// note records the Lease from the watch. A Lease without a holder counts as not renewed.
func (a *annotating) note(lease *coordinationv1.Lease) {
	a.mu.Lock()
	switch {
	case lease.Spec.RenewTime == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "":
		a.renewed, a.seen = time.Time{}, time.Time{}
	case !lease.Spec.RenewTime.Time.Equal(a.renewed):
		a.renewed, a.seen = lease.Spec.RenewTime.Time, a.clock.Now()
	}
	a.mu.Unlock()
	a.look(false)
}
