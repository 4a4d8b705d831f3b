package scheduler

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
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

// fenceType is the condition of a pod that names the scheduler which has last taken over. Writing it changes the pod's
// resource version, on which every Binding is conditional (BindingREST.setPodNodeAndMetadata): a Binding that was sent
// before can no longer be written.
const fenceType corev1.PodConditionType = "berth.dev/fenced"

// fenceOf returns who has fenced the pod; "" for nobody.
func fenceOf(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == fenceType {
			return pod.Status.Conditions[i].Message
		}
	}
	return ""
}

// takeover is what a scheduler does before it places its first pod. A leader that died may have sent Bindings which
// the API server has yet to write, to nodes that nobody can name. Where its trail says so, every pod that could be bound is
// fenced; it is over when the feed has seen all of them: with our fence, or bound before it, or gone.
type takeover struct {
	*core
	client kubernetes.Interface
	trail  *trail
	// over: pods may be placed; under: it is being done.
	over, under atomic.Bool
	// synced is when everything that was there at the start had been taken in.
	synced time.Time
}

func newTakeover(c *core, client kubernetes.Interface, namespace string) *takeover {
	return &takeover{core: c, client: client, trail: &trail{
		leases: client.CoordinationV1().Leases(namespace), clock: c.clock, logger: c.feed.logger, name: string(uuid.NewUUID()),
	}}
}

const (
	waitReports  = "Berth has not read all NodeTopologies yet"
	waitTakeover = "Berth makes sure that the scheduler before it has nothing under way"
)

// notYet says why nothing that could be pinned is placed yet; "" when it is. Only the leader is asked.
func (c *core) notYet(ctx context.Context) string {
	switch {
	case !c.ready.Load():
		return waitReports
	case c.takeover == nil || c.takeover.over.Load():
		return ""
	}
	if c.takeover.under.CompareAndSwap(false, true) {
		go c.takeover.run(context.WithoutCancel(ctx))
	}
	return waitTakeover
}

// run takes over. After bindTimeout the API server has given up whatever was under way.
func (t *takeover) run(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	left := t.claim(limit)
	if young := t.synced.Add(t.feed.settle).Sub(t.clock.Now()); left != legacyNone && young > 0 {
		// A pod that was bound, and deleted by force, before we began to watch may be on its way to its kubelet.
		<-t.clock.After(young)
	}
	if left == legacyUnderWay || left == legacyUnknown {
		begun := t.clock.Now()
		pods, err := t.fence(limit)
		t.feed.logger.Info("Fenced the pods that the scheduler before may be binding", "pods", pods, "took", t.clock.Now().Sub(begun), "err", err)
	}
	t.trail.over()
	t.over.Store(true)
	t.under.Store(false)
	t.waiters.WakeAll()
}

// claim claims the trail, trying again while the API server does not answer.
func (t *takeover) claim(ctx context.Context) (left legacy) {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		left, err = t.trail.claim(ctx)
		if err != nil {
			t.feed.logger.Info("Cannot take over the lease yet", "lease", TrailName, "err", err)
		}
		return err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return legacyUnknown
	}
	return left
}

// fenceWorkers is how many pods are fenced at a time.
const fenceWorkers = 16

// fence fences all pods that could be bound, and returns how many when the feed has seen them, or ctx ends. Beside that the
// error says why some pod was not fenced.
func (t *takeover) fence(ctx context.Context) (int, error) {
	pods, err := t.bindable(ctx)
	if err != nil {
		return 0, err
	}
	done := t.feed.fences.await(t.trail.name, pods)
	var g errgroup.Group
	g.SetLimit(fenceWorkers)
	for _, pod := range pods {
		g.Go(func() error { return t.fenceOne(ctx, pod) })
	}
	// A pod that cannot be fenced may be bound until the limit, like one whose fence has not been seen.
	err = g.Wait()
	select {
	case <-done:
		return len(pods), err
	case <-ctx.Done():
		return len(pods), errors.Join(ctx.Err(), err)
	}
}

// bindable asks the API server itself for the pods that a scheduler like this one could be binding.
func (t *takeover) bindable(ctx context.Context) (pods []*corev1.Pod, err error) {
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		pods = nil
		list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return t.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		})
		err := list.EachListItem(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="}, func(obj runtime.Object) error {
			pod, ok := obj.(*corev1.Pod)
			if _, ours := t.profiles.Load(pod.Spec.SchedulerName); ok && ours && mightPin(pod) && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 {
				pods = append(pods, pod.DeepCopy())
			}
			return nil
		})
		return err == nil, nil
	})
	return pods, err
}

func (t *takeover) fenceOne(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, // a precondition
		"status": map[string]any{"conditions": []any{corev1.PodCondition{Type: fenceType, Status: corev1.ConditionTrue,
			Reason: "NewLeader", Message: t.trail.name, LastTransitionTime: metav1.NewTime(t.clock.Now())}}},
	})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		pods := t.client.CoreV1().Pods(pod.Namespace)
		_, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		another := false
		if apierrors.IsConflict(err) { // with another pod of this name, or with writes that came before ours several times
			var now *corev1.Pod
			if now, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err == nil && now.UID == pod.UID {
				return false, nil
			}
			another = err == nil
		}
		if another || apierrors.IsNotFound(err) {
			t.feed.fences.gone(pod.UID)
			return true, nil
		}
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return false, err
		}
		return err == nil, nil
	})
}

// fences are pods that the feed is to see fenced. The zero value awaits none.
type fences struct {
	active  atomic.Bool
	mu      sync.Mutex
	name    string
	awaited map[types.UID]bool
	done    chan struct{}
}

// await returns a channel that is closed when every pod has been seen.
func (f *fences) await(name string, pods []*corev1.Pod) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name, f.awaited, f.done = name, make(map[types.UID]bool, len(pods)), make(chan struct{})
	for _, pod := range pods {
		f.awaited[pod.UID] = true
	}
	f.active.Store(true)
	f.finish()
	return f.done
}

// seen is told of every pod that the feed has taken in.
func (f *fences) seen(pod *corev1.Pod) {
	if !f.active.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if pod.Spec.NodeName != "" || fenceOf(pod) == f.name {
		f.drop(pod.UID)
	}
}

// gone is told of every pod that is no more.
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
