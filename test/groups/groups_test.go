package groups

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/line"
	"github.com/berth-dev/berth/test/scrape"
	"github.com/berth-dev/berth/test/trial"
)

// gates are the feature gates of Kubernetes' own groups.
const gates = "GenericWorkload=true"

func TestMain(m *testing.M) {
	if code, ok := demo.Role(os.Args[1:], os.Stdin, os.Stderr); ok {
		os.Exit(code)
	}
	if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	klog.LogToStderr(false) // client-go warns about every connection that ends
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

const (
	namespace = metav1.NamespaceDefault
	// patience is long enough for a busy machine.
	patience = 3 * time.Minute
	// twoSockets has 6 CPUs for pods on one NUMA node, and 8 on the other.
	twoSockets = "package:2 numa:1 core:4 pu:2 number:interleaved mem:16Gi dist:10,21"
	singleNUMA = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0,8"
`
)

// world has two hollow nodes, and a scheduler with the gates on.
type world struct {
	*testing.T
	*trial.Cluster
	scheduler *trial.Part

	mu sync.Mutex
	// refuse is how often the Binding of a pod is refused.
	refuse map[string]int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, refuse: map[string]int{}}
	var nodes []hollow.Spec
	for i := range 2 {
		nodes = append(nodes, hollow.Spec{Name: fmt.Sprint("n", i), Machine: twoSockets, KubeletConfig: singleNUMA, StopTime: time.Second})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	w.Cluster, err = trial.Start(ctx, demo.ClusterOptions{
		Nodes: nodes, Manifests: trial.Manifests(namespace),
		ControlPlane: controlplane.Options{Flags: []string{"--runtime-config=scheduling.k8s.io/v1beta1=true"}},
	})
	t.Cleanup(func() {
		if t.Failed() && w.scheduler != nil {
			t.Logf("log of the scheduler:\n%s", w.scheduler.Process().LogTail(8000))
		}
		w.check(w.Stop())
	})
	w.must(err)
	w.must(w.StartAgents(ctx))
	way, err := w.Line(w.forward)
	w.must(err)
	w.scheduler, err = w.StartScheduler(trial.Scheduler{Name: "scheduler"}, way, demo.VerbBerthScheduler, "--feature-gates="+gates)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}

// forward passes on the scheduler's requests, and refuses some Bindings.
func (w *world) forward(way *line.Line, out http.ResponseWriter, r *http.Request) {
	_, pod, _ := strings.Cut(line.BindingOf(r), "/")
	w.mu.Lock()
	refused := w.refuse[pod] > 0
	if refused {
		w.refuse[pod]--
	}
	w.mu.Unlock()
	if refused {
		http.Error(out, "refused", http.StatusForbidden)
		return
	}
	way.Forward(out, r)
}

// pod makes a Guaranteed pod of the group; "" means no group.
func pod(group, name string, cpus int64, priority string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.TerminationGracePeriodSeconds, p.Spec.PriorityClassName = new(int64), priority
	if group != "" {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}}}}
	return p
}

// group makes a PodGroup with one pod for each number of CPUs, which start together.
func (w *world) group(name, priority string, cpus ...int64) {
	w.Helper()
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(len(cpus))}
	g.Spec.PriorityClassName = priority
	_, err := w.Client.SchedulingV1beta1().PodGroups(namespace).Create(w.Context(), g, metav1.CreateOptions{})
	w.must(err)
	for i, n := range cpus {
		w.create(pod(name, fmt.Sprintf("%s-%d", name, i), n, priority))
	}
}

func (w *world) create(p *corev1.Pod) {
	w.Helper()
	_, err := w.Client.CoreV1().Pods(namespace).Create(w.Context(), p, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) pods() []corev1.Pod {
	list, err := w.Client.CoreV1().Pods(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	return list.Items
}

// await waits until missing returns "". A refusal by a kubelet fails the test.
func (w *world) await(missing func([]corev1.Pod) string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	why := ""
	if !trial.Until(ctx, 100*time.Millisecond, func() bool {
		pods := w.pods()
		for i := range pods {
			if p := &pods[i]; p.Status.Phase == corev1.PodFailed && p.DeletionTimestamp == nil && p.Status.Reason != "" {
				w.Fatalf("node %s refused pod %s: %s", p.Spec.NodeName, p.Name, p.Status.Message)
			}
		}
		why = missing(pods)
		return why == ""
	}) {
		w.Fatalf("after %v: %s", patience, why)
	}
}

// awaitRunning waits until pods run, and compares their CPUs with the promises.
func (w *world) awaitRunning(names ...string) {
	w.Helper()
	w.await(func(pods []corev1.Pod) string {
		left := map[string]bool{}
		for _, name := range names {
			left[name] = true
		}
		for i := range pods {
			if pods[i].Status.Phase == corev1.PodRunning {
				delete(left, pods[i].Name)
			}
		}
		if len(left) > 0 {
			return fmt.Sprintf("%v do not run", left)
		}
		return ""
	})
	for _, p := range w.pods() {
		node, err := w.Node(p.Spec.NodeName)
		if err != nil {
			continue // the pod waits
		}
		if wrong, err := demo.Mispredicted(node, &p); err != nil || wrong != "" {
			w.Errorf("pod %s on %s: %s %v", p.Name, p.Spec.NodeName, wrong, err)
		}
	}
}

// clean deletes all pods and PodGroups, and waits until they are gone.
func (w *world) clean() {
	w.Helper()
	w.must(w.Client.CoreV1().Pods(namespace).DeleteCollection(w.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.must(w.Client.SchedulingV1beta1().PodGroups(namespace).DeleteCollection(w.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.await(func(pods []corev1.Pod) string {
		if len(pods) > 0 {
			return fmt.Sprintf("%d pods are left", len(pods))
		}
		m, err := scrape.Scheduler(w.scheduler.Port)
		if err != nil {
			return err.Error()
		}
		return scrape.Left(m, scrape.Held...)
	})
}

// reserved returns how often the scheduler called Reserve, without the calls in trials.
func (w *world) reserved() (sum float64) {
	w.Helper()
	m, err := scrape.Scheduler(w.scheduler.Port)
	w.must(err)
	for name, n := range m {
		if strings.HasPrefix(name, "berth_scheduler_verdicts_total") && strings.Contains(name, `"Reserve"`) {
			sum += n
		}
	}
	return sum
}

// TestKubernetesOwnGroups runs the cases of Kubernetes' own group cycle with Berth's plugin.
func TestKubernetesOwnGroups(t *testing.T) {
	if os.Getenv("BERTH_SLOW_SCENES") == "" {
		t.Skip("BERTH_SLOW_SCENES is not set; make e2e-gangs sets it")
	}
	w := newWorld(t)
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"the commit gives members what the trial gave them", wholeGroup},
		{"a group that does not fit has no consequences", largeGroup},
		{"a member whose Binding fails comes after its mates", failedMember},
		{"victims that leave without a word are seen", preemptingGroup},
	} {
		if !t.Run(test.name, func(t *testing.T) {
			outer := w.T
			w.T = t
			defer func() { w.T = outer }()
			test.run(w)
			w.clean()
		}) {
			return
		}
	}
}

func wholeGroup(w *world) {
	w.group("whole", "", 8, 8, 6, 4) // in any order that the trial may choose
	w.awaitRunning("whole-0", "whole-1", "whole-2", "whole-3")
}

// largeGroup: a failed trial reserves nothing, counts nothing and blocks no other pod.
func largeGroup(w *world) {
	before := w.reserved()
	w.group("large", "", 8, 8, 6, 6, 6)
	w.await(func(pods []corev1.Pod) string {
		for i := range pods {
			if pods[i].Spec.NodeName != "" {
				w.Fatalf("pod %s of a group that does not fit is bound", pods[i].Name)
			}
			for _, c := range pods[i].Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
					return ""
				}
			}
		}
		return "no member is told that the group does not fit"
	})
	if n := w.reserved(); n != before {
		w.Errorf("%v reservations for a group that does not fit", n-before)
	}
	w.create(pod("", "single", 8, ""))
	w.awaitRunning("single")
}

func failedMember(w *world) {
	w.mu.Lock()
	w.refuse["failing-1"] = 2
	w.mu.Unlock()
	w.group("failing", "", 6, 6, 8)
	w.awaitRunning("failing-0", "failing-1", "failing-2")
}

func preemptingGroup(w *world) {
	var low []string
	for i, cpus := range []int64{8, 8, 6, 6} {
		name := fmt.Sprint("low-", i)
		low = append(low, name)
		w.create(pod("", name, cpus, ""))
	}
	w.awaitRunning(low...)
	w.group("urgent", trial.Urgent, 8, 8)
	w.awaitRunning("urgent-0", "urgent-1", "low-2", "low-3")
}
