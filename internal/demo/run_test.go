package demo

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
)

// slowClient finishes the creation of pod "slow" only when pod "first" is deleted.
type slowClient struct {
	kubernetes.Interface
	deleted chan struct{}
}

func (c slowClient) CoreV1() corev1client.CoreV1Interface {
	return slowCore{c.Interface.CoreV1(), c.deleted}
}

// IsWatchListSemanticsUnSupported is called by informers: the fake client sends no bookmarks.
func (slowClient) IsWatchListSemanticsUnSupported() bool { return true }

type slowCore struct {
	corev1client.CoreV1Interface
	deleted chan struct{}
}

func (c slowCore) Pods(namespace string) corev1client.PodInterface {
	return slowPods{c.CoreV1Interface.Pods(namespace), c.deleted}
}

type slowPods struct {
	corev1client.PodInterface
	deleted chan struct{}
}

func (c slowPods) Create(ctx context.Context, pod *corev1.Pod, o metav1.CreateOptions) (*corev1.Pod, error) {
	if pod.Name == "slow" {
		select {
		case <-c.deleted:
		case <-ctx.Done():
		}
	}
	return c.PodInterface.Create(ctx, pod, o)
}

func (c slowPods) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	if name == "first" {
		close(c.deleted)
	}
	return c.PodInterface.Delete(ctx, name, o)
}

// TestRunnerDoesNotWaitForTheAPIServer: while the API server is slow to create a pod, the Runner
// still handles events of other pods, and deletes them at their time. Otherwise pods would stay on
// the nodes for too long on a busy machine, and others would find no room.
func TestRunnerDoesNotWaitForTheAPIServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a Runner that waits would wait forever
	defer cancel()
	client := slowClient{fake.NewClientset(), make(chan struct{})}
	pod := func(name string, at time.Duration) Pod {
		return Pod{Name: name, At: at, Life: time.Millisecond, Containers: []Container{{MilliCPU: 1000, MemoryBytes: 1 << 20}}}
	}
	r := &Runner{
		Cluster:  &Cluster{Client: client},
		Workload: Workload{Pods: []Pod{pod("first", 0), pod("slow", time.Millisecond)}},
	}
	report, err := r.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if report.Pods != 2 || report.Pending != 0 || report.OutOfTime {
		t.Errorf("%+v: want 2 pods that came and went", report)
	}
	left, err := client.CoreV1().Pods(Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d pods are left, %v", len(left.Items), err)
	}
}

// TestRunnerChangesPods: pods are created with the changes of Runner.Change.
func TestRunnerChangesPods(t *testing.T) {
	client := fake.NewClientset()
	for _, change := range []func(*corev1.Pod){nil, func(pod *corev1.Pod) { pod.Spec.SchedulerName = "other" }} {
		r := &Runner{
			Cluster: &Cluster{Client: slowClient{client, make(chan struct{})}}, Change: change,
			Workload: Workload{Pods: []Pod{{Name: "first", Life: time.Millisecond, Containers: []Container{{}}}}},
		}
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var created []string
	for _, action := range client.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok && action.GetResource().Resource == "pods" {
			created = append(created, create.GetObject().(*corev1.Pod).Spec.SchedulerName)
		}
	}
	if !slices.Equal(created, []string{"", "other"}) {
		t.Errorf("schedulers of the pods: %q, want none and other", created)
	}
}

// TestLinesAbout: the lines of a kubelet's log about a pod name the pod, and are few.
func TestLinesAbout(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-7", UID: "u-7"}}
	if got, want := linesAbout("started\npod-7 is bound\npod-8 is bound\ncontainer of u-7\n", pod), "\n    pod-7 is bound\n    container of u-7"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	long := linesAbout(strings.Repeat("pod-7 "+strings.Repeat("x", 1000)+"\n", 100), pod)
	if lines := strings.Count(long, "\n"); lines != 12 || len(long) > 12*320 {
		t.Errorf("%d lines with %d bytes: want 12 of at most 300 and what marks them", lines, len(long))
	}
	if got := linesAbout("nothing of it\n", pod); got != "" {
		t.Errorf("%q, want nothing", got)
	}
}
