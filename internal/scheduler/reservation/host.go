package reservation

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/lead"
	"github.com/berth-dev/berth/internal/wire"
)

// Cache is the part of the scheduler's cache of pods on nodes that this package needs.
type Cache interface {
	AddPod(logger klog.Logger, pod *corev1.Pod) error
	UpdatePod(logger klog.Logger, oldPod, newPod *corev1.Pod) error
	RemovePod(logger klog.Logger, pod *corev1.Pod) error
}

// Queue is the part of the scheduling queue that this package needs.
type Queue interface {
	Add(ctx context.Context, pod *corev1.Pod)
	Update(ctx context.Context, oldPod, newPod *corev1.Pod)
	Delete(pod *corev1.Pod)
	Done(uid types.UID)
	Activate(logger klog.Logger, pods map[string]*corev1.Pod)
	// PutBack is AddUnschedulable(Pod)IfNotPresent of kube-scheduler's queue.
	PutBack(logger klog.Logger, pod *framework.QueuedPodInfo, cycle int64) error
	SchedulingCycle() int64
}

// Options are the inputs of Reservations.
type Options struct {
	Clock  clock.WithDelayedExecution
	Logger klog.Logger
	Events events.EventRecorder
	// Account returns the ledger of a node.
	Account func(node string) *ledger.Node
	// HasNode reports whether there is a node with the given name.
	HasNode func(name string) bool
	// Changed is called when a place was released: the node may now accept pods that it refused
	// before. The parameter held is the pod that held the place in the scheduler's cache, or nil.
	Changed func(node string, held *corev1.Pod)
	// Done is called when the pod that stands for a Reservation no longer needs a node.
	Done func(uid string)
	// Ours reports whether this process serves the given scheduler name.
	Ours func(scheduler string) bool
	// OwnersNeedNamespace means that Reservations with an owner that names no namespace are
	// refused.
	OwnersNeedNamespace bool
	// Lead allows writes once it is open. Between opens the gate.
	Lead *lead.Gate
}

// host keeps the scheduler's cache and queue and the accounts of nodes in line with the
// Reservations.
type host struct {
	Options
	// cache and queue are nil until Attach.
	cache Cache
	queue Queue
}

func (h *host) enqueue(it *item) {
	pod := it.read.Pod
	switch {
	case it.queued == nil:
		h.queue.Add(context.Background(), pod)
	case !same(it.queued, pod):
		h.queue.Update(context.Background(), it.queued, pod)
	default:
		return
	}
	it.queued = pod
}

func (h *host) unqueue(it *item) {
	if it.queued != nil {
		h.queue.Delete(it.queued)
		h.Done(string(it.queued.UID))
		it.queued = nil
	}
}

// hold makes the node's account and the scheduler's cache hold the part of the place that the
// owners do not use.
func (h *host) hold(it *item, owners []*corev1.Pod) {
	account := h.Account(it.node)
	it.had = slices.DeleteFunc(it.had, func(uid string) bool { return !account.View().Knows(uid) })
	for _, pod := range owners {
		if !slices.Contains(it.had, string(pod.UID)) {
			it.had = append(it.had, string(pod.UID))
		}
	}
	rest := it.read.Rest(owners)
	place := ledger.Holding{UID: string(it.read.UID), Owners: it.had, More: it.read.More, Once: it.read.Once}
	if it.decision != nil {
		place.Held = it.decision.Held()
	}
	if rest != nil {
		if ask, err := wire.HeldRequest(rest); err == nil {
			place.Request = ask
		}
	}
	account.Hold(place)
	var held *corev1.Pod
	if rest != nil {
		held = wire.Held(rest, it.node)
	}
	h.keep(it, held)
}

// keep replaces the Reservation's pod in the scheduler's cache with the parameter held. If held is
// nil, keep removes the Reservation's pod.
func (h *host) keep(it *item, held *corev1.Pod) {
	var err error
	switch was := it.cached; {
	case was == nil && held == nil:
	case was == nil:
		err = h.cache.AddPod(h.Logger, held)
	case held == nil:
		err = h.cache.RemovePod(h.Logger, was)
	case !same(was, held):
		err = h.cache.UpdatePod(h.Logger, was, held)
	}
	if err != nil {
		h.Logger.Error(err, "The scheduler's cache does not have the resources that a Reservation holds", "reservation", it.object.Name, "node", it.node)
	}
	it.cached = held
}

// release makes the node's account and the scheduler's cache hold nothing for the Reservation.
func (h *host) release(it *item) {
	if it.node == "" {
		return
	}
	freed := it.cached
	released := h.Account(it.node).Release(string(it.object.UID))
	h.keep(it, nil)
	if released {
		node := it.node
		go h.Changed(node, freed)
	}
	if it.stage == waiting {
		it.node, it.decision, it.had, it.unchecked = "", nil, nil, false
	}
}

// same reports whether two pods that stand for one Reservation have equal requests, node and
// resource version.
func same(a, b *corev1.Pod) bool {
	return slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, func(x, y corev1.Container) bool {
		return x.Name == y.Name && equality.Semantic.DeepEqual(x.Resources.Requests, y.Resources.Requests) && equality.Semantic.DeepEqual(x.Resources.Limits, y.Resources.Limits)
	}) && a.Spec.NodeName == b.Spec.NodeName && a.ResourceVersion == b.ResourceVersion
}

// requeue puts the pod back into the queue, with the plugins that refused it, so that the queue
// knows which events may help.
func (h *host) requeue(it *item, info *framework.QueuedPodInfo, status *fwk.Status) {
	info.ClearRejectorPlugins()
	if fit, ok := status.AsError().(*framework.FitError); ok { //nolint:errorlint // as the scheduler itself
		info.UnschedulablePlugins, info.PendingPlugins = fit.Diagnosis.UnschedulablePlugins, fit.Diagnosis.PendingPlugins
	}
	fresh, err := framework.NewPodInfo(it.queued.DeepCopy())
	if err == nil {
		info.PodInfo = fresh
		err = h.queue.PutBack(h.Logger, info, h.queue.SchedulingCycle())
	}
	if err != nil {
		h.Logger.Error(err, "A Reservation cannot be tried again", "reservation", it.object.Name)
		h.queue.Done(it.object.UID)
	}
}
