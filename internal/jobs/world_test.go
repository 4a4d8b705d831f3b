package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// world is an API server, with nodes that treat pods as a scenario says.
type world struct {
	mu     sync.Mutex // held during writes
	t      *testing.T
	client client.WithWatch
	job    types.NamespacedName
	// writes counts the controller's writes. The write with the number kill fails before it is
	// done, or after it if after is set, and the controller is restarted.
	writes, kill int
	after        bool
	uids         int
	// lives counts how often a pod of each name was created.
	lives map[string]int
	now   time.Time
	fate  func(w *world, pod *corev1.Pod)
	// byWorld is true while nodes and users act.
	byWorld bool
}

var errKilled = errors.New("the controller was killed")

var worldScheme = sync.OnceValue(func() *runtime.Scheme {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, batch.AddToScheme, group.AddToScheme} {
		utilruntime.Must(add(known))
	}
	return known
})

func newWorld(t *testing.T, spec string, fate func(*world, *corev1.Pod)) *world {
	t.Helper()
	w := &world{t: t, kill: -1, lives: map[string]int{}, now: time.Unix(1_760_000_000, 0), fate: fate}
	known := worldScheme()
	job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "j", UID: "job-uid"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &job.Spec); err != nil {
		t.Fatal(err)
	}
	w.job = client.ObjectKeyFromObject(job)
	// This tracker keeps no managed fields, which would take most of the time of these tests.
	tracker := clienttesting.NewObjectTracker(known, serializer.NewCodecFactory(known).UniversalDecoder())
	w.client = fake.NewClientBuilder().WithScheme(known).WithObjectTracker(tracker).WithObjects(job).WithStatusSubresource(&batch.Job{}, &corev1.Pod{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: w.create, Delete: w.remove, Update: w.update, SubResourceUpdate: w.updateStatus}).Build()
	return w
}

// write does a write of the controller, unless the controller is killed before it.
func (w *world) write(do func() error) error {
	w.mu.Lock() // the reconciler creates several pods at once
	defer w.mu.Unlock()
	if w.byWorld {
		return do()
	}
	n := w.writes
	w.writes++
	if n != w.kill {
		return do()
	}
	if w.after {
		_ = do() // the controller does not see the result
	}
	return errKilled
}

func (w *world) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	return w.write(func() error {
		w.uids++
		o.SetUID(types.UID(fmt.Sprintf("uid-%04d", w.uids)))
		o.SetCreationTimestamp(metav1.NewTime(w.now))
		err := c.Create(ctx, o, opts...)
		if _, pod := o.(*corev1.Pod); pod && err == nil {
			w.lives[o.GetName()]++
		}
		return err
	})
}

func (w *world) remove(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	return w.write(func() error { return c.Delete(ctx, o, opts...) })
}

func (w *world) update(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
	return w.write(func() error { return c.Update(ctx, o, opts...) })
}

func (w *world) updateStatus(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
	return w.write(func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
}

func (w *world) reconciler() *Reconciler {
	return &Reconciler{
		Client: w.client, Live: w.client, Events: events.NewFakeRecorder(4096), Scheduler: "berth",
		Mine: func(context.Context, string) string { return "" }, Now: func() time.Time { return w.now },
	}
}

// settle reconciles until nothing is left to do.
func (w *world) settle() {
	w.t.Helper()
	r := w.reconciler()
	for range 200 {
		before := w.writes
		q, err := r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: w.job})
		if errors.Is(err, errKilled) {
			r = w.reconciler()
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if w.writes == before && q.RequeueAfter < time.Second {
			return
		}
		if q.RequeueAfter >= time.Second {
			return
		}
	}
	w.t.Fatal("it never settles")
}

func (w *world) read() *batch.Job {
	job := new(batch.Job)
	if err := w.client.Get(w.t.Context(), w.job, job); err != nil {
		w.t.Fatal(err)
	}
	return job
}

func (w *world) pods() []corev1.Pod {
	var list corev1.PodList
	if err := w.client.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// act lets nodes and users act once.
func (w *world) act() {
	w.byWorld = true
	defer func() { w.byWorld = false }()
	for _, pod := range w.pods() {
		w.fate(w, &pod)
	}
	w.now = w.now.Add(time.Second)
}

func (w *world) set(pod *corev1.Pod, phase corev1.PodPhase, code int32) {
	if ended(pod) {
		return
	}
	pod.Status.Phase = phase
	if phase == corev1.PodFailed {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code},
		}}}
	}
	if err := w.client.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) evict(pod *corev1.Pod) {
	if err := w.client.Delete(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

// play runs a scenario to its end, and returns the result.
func (w *world) play() string {
	w.t.Helper()
	for range 40 {
		w.settle()
		if isFinal(w.read().Status.State.Phase) {
			return w.tell()
		}
		w.act()
	}
	w.t.Fatalf("it never ends: %+v", w.read().Status)
	return ""
}

// tell returns how a Job ended, and which of its objects are left.
func (w *world) tell() string {
	s := w.read().Status
	var left []string
	for _, pod := range w.pods() {
		left = append(left, fmt.Sprintf("%s:%s", pod.Name, pod.Status.Phase))
	}
	return fmt.Sprintf("%s version %d retries %d succeeded %d failed %d: %s", s.State.Phase, s.Version, s.RetryCount, s.Succeeded, s.Failed, strings.Join(left, " "))
}
