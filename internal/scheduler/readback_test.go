package scheduler

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/handover"
)

// apiHandle is the part of a framework's handle that Bind needs.
type apiHandle struct {
	fwk.Handle
	client    *fake.Clientset
	informers informers.SharedInformerFactory
	nominated map[string][]fwk.PodInfo
}

func (h apiHandle) ClientSet() kubernetes.Interface                        { return h.client }
func (h apiHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }
func (h apiHandle) ProfileName() string                                    { return "default-scheduler" }
func (h apiHandle) APICacher() fwk.APICacher                               { return nil }
func (h apiHandle) SnapshotSharedLister() fwk.SharedLister                 { return sharedLister{} }
func (h apiHandle) NominatedPodsForNode(name string) []fwk.PodInfo         { return h.nominated[name] }

// attached gives the fixture an API server with the pods, and node n a report.
func attached(t *testing.T, pods ...runtime.Object) (*fixture, apiHandle) {
	register()
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	h := apiHandle{client: fake.NewClientset(pods...), nominated: map[string][]fwk.PodInfo{}}
	h.informers = informers.NewSharedInformerFactory(h.client, 0)
	f.handle, f.pods.PodLister = h, h.informers.Core().V1().Pods().Lister()
	f.core.onNodes = newOnNodes(h, klog.Background())
	for _, pod := range pods {
		h.tell(t, pod)
	}
	return f, h
}

// tell adds an object to the scheduler's own watch.
func (h apiHandle) tell(t *testing.T, pod runtime.Object) {
	if err := h.informers.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
		t.Fatal(err)
	}
}

// onBind sets how the API server answers Bindings.
func (h apiHandle) onBind(answer func(*corev1.Binding) error) {
	h.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		b := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		return true, b, answer(b)
	})
}

// onGet sets how the API server answers when the pod is read.
func (h apiHandle) onGet(answer func() (*corev1.Pod, error)) {
	h.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		pod, err := answer()
		return true, pod, err
	})
}

// reserve takes the pod through a cycle up to Reserve on node n, so that it can be bound.
func (f *fixture) reserve(pod *corev1.Pod) *cycleData {
	f.Helper()
	state := newCycleData()
	if _, s := f.PreFilter(f.Context(), state, pod, nil); !s.IsSuccess() {
		f.Fatal(s)
	}
	if s := f.Reserve(f.Context(), state, pod, "n"); !s.IsSuccess() {
		f.Fatal(s)
	}
	return state
}

// TestReadBackThatFails: if the answer to a Binding was lost, errors when the pod is read do not
// show whether it is bound. Its resources stay reserved.
func TestReadBackThatFails(t *testing.T) {
	pods := corev1.Resource("pods")
	for what, found := range map[string]func() (*corev1.Pod, error){
		"before RBAC is loaded":  func() (*corev1.Pod, error) { return nil, apierrors.NewForbidden(pods, "x", errors.New("no role")) },
		"before tokens are":      func() (*corev1.Pod, error) { return nil, apierrors.NewUnauthorized("who are you") },
		"too busy":               func() (*corev1.Pod, error) { return nil, apierrors.NewTooManyRequestsError("later") },
		"bound, and gone since":  func() (*corev1.Pod, error) { return nil, apierrors.NewNotFound(pods, "x") },
		"gone, and another here": func() (*corev1.Pod, error) { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "another"}}, nil },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pod := pinned("x", 8)
			f, h := attached(t, pod)
			h.onBind(func(*corev1.Binding) error { return errors.New("connection reset by peer") })
			h.onGet(found)
			state := f.reserve(pod)
			s := f.Bind(t.Context(), state, pod, "n")
			if !errors.Is(s.AsError(), handover.ErrInDoubt) {
				t.Errorf("%v, want a doubt", s)
			}
			f.Unreserve(t.Context(), state, pod, "n")
			if c := f.table.Named("n").Account().View().Census(); c.Afloat != 1 {
				t.Errorf("%+v, want a pod that may be on the node", c)
			}
			next := pinned("next", 8)
			if a := f.table.Named("n").Account().View().Ask(ledger.Question{Candidate: f.wait(next)}); a.OK() {
				t.Errorf("%v: the place is given away", a.Outcome)
			}
		})
	}
}

// TestARefusedBindingOfAPodThatIsGone: the API server answered that it did not write the Binding,
// so that there is no doubt.
func TestARefusedBindingOfAPodThatIsGone(t *testing.T) {
	pod := pinned("x", 8)
	f, h := attached(t, pod)
	pods := corev1.Resource("pods")
	h.onBind(func(*corev1.Binding) error { return apierrors.NewConflict(pods, "x", errors.New("changed")) })
	h.onGet(func() (*corev1.Pod, error) { return nil, apierrors.NewNotFound(pods, "x") })
	if s := f.Bind(t.Context(), f.reserve(pod), pod, "n"); !apierrors.IsNotFound(s.AsError()) || errors.Is(s.AsError(), handover.ErrInDoubt) {
		t.Errorf("%v, want that it is gone", s)
	}
	f.want("the place is free", pinned("next", 8), ledger.Admitted)
}
