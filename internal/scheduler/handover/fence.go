package handover

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"
)

// fenceType is the type of the condition with which a new leader fences a pod. The message of the
// condition is the random name of the leader's process. The write changes the pod's resource
// version, on which every Binding is conditional (BindingREST.setPodNodeAndMetadata). So the API
// server refuses a Binding that was sent earlier.
const fenceType corev1.PodConditionType = "berth.dev/fenced"

// FencedSince reports whether another scheduler has fenced the pod between its versions then and
// now.
func (h *Handover) FencedSince(then, now *corev1.Pod) bool {
	fence := fenceOf(now)
	return fence != fenceOf(then) && fence != h.lease.name
}

// fenceOf returns the name of the scheduler that last fenced the pod, or "".
func fenceOf(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == fenceType {
			return pod.Status.Conditions[i].Message
		}
	}
	return ""
}

// fenceWorkers is the maximum number of pods that are fenced at a time.
const fenceWorkers = 16

// fence fences all pods that the previous leader could be binding or resizing, and returns their
// number. It waits until the watch shows that each of these pods is fenced or gone, or until ctx
// ends. For a pod that had no node, it is enough that the watch shows the pod as bound. The error
// explains why a pod was not fenced.
func (h *Handover) fence(ctx context.Context) (int, error) {
	pods, err := h.bindable(ctx)
	if err != nil {
		return 0, err
	}
	if h.Resizing != nil {
		pods = append(pods, h.Resizing()...)
	}
	done := h.fences.await(h.lease.name, pods)
	var g errgroup.Group
	g.SetLimit(fenceWorkers)
	for _, pod := range pods {
		g.Go(func() error { return h.fenceOne(ctx, pod) })
	}
	// Wait until ctx ends if a pod could not be fenced, because the API server may still write its
	// Binding until then.
	err = g.Wait()
	select {
	case <-done:
		return len(pods), err
	case <-ctx.Done():
		return len(pods), errors.Join(ctx.Err(), err)
	}
}

// bindable lists, from the API server, the pods that a scheduler with the same profile names could
// be binding.
func (h *Handover) bindable(ctx context.Context) (pods []*corev1.Pod, err error) {
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		pods = nil
		list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return h.Pods.Pods(metav1.NamespaceAll).List(ctx, o)
		})
		err := list.EachListItem(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="}, func(obj runtime.Object) error {
			pod, ok := obj.(*corev1.Pod)
			ended := ok && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed) // the informers omit ended pods
			if ok && !ended && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 && h.Ours(pod) {
				pods = append(pods, pod.DeepCopy())
			}
			return nil
		})
		return err == nil, nil
	})
	return pods, err
}

// fenceOne writes the condition into a pod, and repeats the request until the API server has
// carried it out or refused it.
func (h *Handover) fenceOne(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, // a precondition of the write
		"status": map[string]any{"conditions": []any{corev1.PodCondition{Type: fenceType, Status: corev1.ConditionTrue,
			Reason: "NewLeader", Message: h.lease.name, LastTransitionTime: metav1.NewTime(h.Clock.Now())}}},
	})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		return h.patch(ctx, pod, patch)
	})
}

// patch sends the request of fenceOne once. It returns true if the pod is fenced, or no longer
// exists.
func (h *Handover) patch(ctx context.Context, pod *corev1.Pod, patch []byte) (bool, error) {
	pods := h.Pods.Pods(pod.Namespace)
	_, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	another := false
	// After a conflict, either the name belongs to another pod, or the API server gave up because
	// of concurrent writes.
	if apierrors.IsConflict(err) {
		var now *corev1.Pod
		if now, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err == nil && now.UID == pod.UID {
			return false, nil
		}
		another = err == nil
	}
	if another || apierrors.IsNotFound(err) {
		h.fences.gone(pod.UID)
		return true, nil
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return false, err
	}
	return err == nil, nil
}

// Seen must be called with every version of a pod that the watch shows, after the ledgers have
// processed it.
func (h *Handover) Seen(pod *corev1.Pod) {
	if h.Decided(pod) {
		h.decided.Store(true)
	}
	h.fences.seen(pod)
}

// Gone must be called for every deleted pod, after the ledgers have processed the deletion.
func (h *Handover) Gone(uid types.UID) { h.fences.gone(uid) }

// fences tracks the pods for which the watch must still show the fence. The zero value waits for no
// pod.
type fences struct {
	active atomic.Bool
	mu     sync.Mutex
	name   string
	// awaited has the pods that the watch must still show as fenced. If the value is true, it is
	// enough that the watch shows the pod with a node.
	awaited map[types.UID]bool
	done    chan struct{}
}

// await returns a channel that is closed when the watch has shown every pod as fenced or gone. For
// a pod without a node, it is enough that the watch has shown it as bound.
func (f *fences) await(name string, pods []*corev1.Pod) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name, f.awaited, f.done = name, make(map[types.UID]bool, len(pods)), make(chan struct{})
	for _, pod := range pods {
		f.awaited[pod.UID] = pod.Spec.NodeName == ""
	}
	f.active.Store(true)
	f.finish()
	return f.done
}

func (f *fences) seen(pod *corev1.Pod) {
	if !f.active.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.awaited[pod.UID] && pod.Spec.NodeName != "" || fenceOf(pod) == f.name {
		f.drop(pod.UID)
	}
}

func (f *fences) gone(uid types.UID) {
	if !f.active.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(uid)
}

func (f *fences) drop(uid types.UID) {
	delete(f.awaited, uid)
	f.finish()
}

func (f *fences) finish() {
	if len(f.awaited) == 0 && f.active.Swap(false) {
		close(f.done)
	}
}
