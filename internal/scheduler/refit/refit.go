package refit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/turns"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Handover records when a decision is being written, so that the next leader knows whether such a
// write may be under way (handover.Handover).
type Handover interface {
	// Enter is called before a decision is written. If it returns an error, the decision must not
	// be written. Leave is called with the error of the write when the result is known.
	Enter(ctx context.Context) error
	Leave(err error)
}

// Options are the inputs of a Refitter.
type Options struct {
	Client corev1client.PodsGetter
	Pods   corev1listers.PodLister
	Table  *nodes.Table
	// Ready reports whether this process leads and has taken over.
	Ready    func(ctx context.Context) bool
	Handover Handover
	Clock    clock.WithDelayedExecution
	Logger   klog.Logger
	Events   events.EventRecorder
}

const (
	// pause is the minimum time between two checks of the resized pods.
	pause = 50 * time.Millisecond
	// retryAfter is the maximum time until resized pods are tried again, for example after a failed
	// write.
	retryAfter = 5 * time.Second
	// maxWriting is the maximum number of concurrent writes. maxOfNamespace is the maximum for one
	// namespace, because an admission webhook for the namespace may delay its writes.
	maxWriting     = 32
	maxOfNamespace = 8
)

// Refitter decides about resized pods. Its methods are safe for concurrent use and do not block.
type Refitter struct {
	Options
	wake chan struct{}

	mu sync.Mutex
	// due has the pods whose allocated amounts differ from their decisions, and the pods for which
	// undone returns true.
	due map[types.UID]types.NamespacedName
	// writing has the namespace of each pod whose status is being written.
	writing map[types.UID]string
}

// New returns a Refitter that has no pods yet.
func New(o Options) *Refitter {
	return &Refitter{Options: o, wake: make(chan struct{}, 1), due: map[types.UID]types.NamespacedName{}, writing: map[types.UID]string{}}
}

// Shown records a version of a pod that the watch shows. The account of the pod's node must have
// this version already. A pod whose status is being written stays due, because the write may fail.
func (r *Refitter) Shown(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.misfits(pod) && !undone(pod) {
		if _, busy := r.writing[pod.UID]; !busy {
			delete(r.due, pod.UID)
		}
		return
	}
	r.due[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	r.poke()
}

func (r *Refitter) misfits(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || !wire.HasPlacement(pod) || wire.Ending(pod) {
		return false
	}
	n := r.Table.Known(pod.Spec.NodeName)
	return n != nil && n.Account().View().Misfits(string(pod.UID), func(container string) (int64, uint64, bool) { return wire.AllocatedTo(pod, container) })
}

// undone reports whether the pod's condition still says that a resize is deferred, although the
// decision matches the allocated amounts again.
func undone(pod *corev1.Pod) bool {
	if isDeferred(pod) == nil || pod.Spec.NodeName == "" || wire.Ending(pod) {
		return false
	}
	p, found, err := wire.ReadPlacement(pod)
	return found && err == nil && !slices.ContainsFunc(p.Decision.Containers, func(c placement.ContainerDecision) bool {
		milli, bytes, told := wire.AllocatedTo(pod, c.Name)
		return wire.Resizes(c.Kind) && (!told || wire.DecidedAmounts(&c) != (wire.Amounts{MilliCPU: milli, Bytes: bytes}))
	})
}

// Gone records that a pod has left the API.
func (r *Refitter) Gone(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due, uid)
}

// Stir makes Run try all resized pods again. It is called when a pod has left a node or a report
// has arrived.
func (r *Refitter) Stir() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.due) > 0 {
		r.poke()
	}
}

func (r *Refitter) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run decides about the resized pods until ctx ends. It does nothing while Options.Ready returns
// false.
func (r *Refitter) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-r.Clock.After(retryAfter): // not every change that may help calls Stir
		}
		if list := r.inTurn(); len(list) > 0 && r.Ready(ctx) {
			for _, name := range list {
				r.try(ctx, name)
			}
		}
		if !later.Wait(ctx, r.Clock, pause) {
			return
		}
	}
}

// Resizing returns the resized pods, as the watch shows them. The previous leader may still be
// writing decisions for these pods.
func (r *Refitter) Resizing() (pods []*corev1.Pod) {
	for _, name := range r.inTurn() {
		if pod, err := r.Pods.Pods(name.Namespace).Get(name.Name); err == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// inTurn lists the due pods whose status is not being written: the first pod of each namespace,
// then the second of each, and so on.
func (r *Refitter) inTurn() []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]types.NamespacedName, 0, len(r.due))
	for uid, name := range r.due {
		if _, busy := r.writing[uid]; !busy {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	turns.Sort(list, func(name types.NamespacedName) string { return name.Namespace })
	return list
}

// try decides about one pod, and begins to write the decision, or the reason why there is none.
func (r *Refitter) try(ctx context.Context, name types.NamespacedName) {
	pod, err := r.Pods.Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return
	}
	if !r.misfits(pod) && !undone(pod) {
		r.Shown(pod)
		return
	}
	n := r.Table.Known(pod.Spec.NodeName)
	if n == nil || r.Table.Unusable(n) != nil || !n.Obeys() || n.Koordlet() || !r.begin(pod) {
		return
	}
	w := r.decide(pod, n)
	if w == nil {
		r.end(pod.UID)
		return
	}
	go func() {
		defer r.end(pod.UID)
		if !w.do(ctx) {
			later.Call(r.Clock, retryAfter, r.Stir)
		}
	}()
}

// begin adds the pod to the running writes. It returns false if the pod's status is being written
// already, or if a limit is reached.
func (r *Refitter) begin(pod *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, busy := r.writing[pod.UID]; busy || len(r.writing) >= maxWriting {
		return false
	}
	same := 0
	for _, namespace := range r.writing {
		if namespace == pod.Namespace {
			same++
		}
	}
	if same >= maxOfNamespace {
		return false
	}
	r.writing[pod.UID] = pod.Namespace
	return true
}

// end removes the pod from the running writes. If other pods may wait because of a limit, end makes
// Run try them.
func (r *Refitter) end(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := len(r.writing) >= maxOfNamespace
	delete(r.writing, uid)
	if full {
		r.poke()
	}
}

// decide returns the write for a resized pod, or nil if there is nothing to write.
func (r *Refitter) decide(pod *corev1.Pod, n *nodes.Node) *write {
	if undone(pod) {
		return r.condition(pod, corev1.ConditionTrue, "Resized", "the decision matches the amounts that the kubelet has allocated")
	}
	if why := wire.Unresizable(pod); why != "" {
		return r.deferred(pod, "not supported on nodes where Berth decides: "+why)
	}
	ask, err := wire.ReadBound(pod)
	if err == nil {
		err = ask.RulesErr
	}
	if err != nil {
		return r.deferred(pod, err.Error())
	}
	var d placement.Decision
	uid := string(pod.UID)
	switch a := n.Account().Refit(&ask.Request, &d); a.Outcome {
	case ledger.RefitWaits:
		r.Logger.V(3).Info("A resize waits for a report, or for a write to end", "pod", klog.KObj(pod), "node", n.Name())
	case ledger.RefitRefused:
		return r.deferred(pod, refusal(&ask.Request, &a.Verdict))
	case ledger.RefitDecided:
		w, err := r.decided(pod, &d, &a)
		if err == nil {
			w.node = n
			return w
		}
		n.Account().NotRefitted(uid)
		if !errors.Is(err, errStale) {
			return r.deferred(pod, err.Error())
		}
	}
	return nil
}

// refusal explains why the pod's new size does not fit on its NUMA nodes.
func refusal(r *placement.Request, v *placement.Verdict) string {
	who := "the pod"
	if c := int(v.Container); c >= 0 && c < len(r.Containers) {
		who = "container " + r.Containers[c].Name
	}
	return fmt.Sprintf("%s: its new size is not possible on its NUMA nodes: %s", who, v.Detail.Text())
}
