package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/demo"
)

// besideVolcano is Berth in a cluster with Volcano's controller.
type besideVolcano struct{ demo.Berth }

// Manifests adds the kinds, as Volcano's own installation would.
func (b besideVolcano) Manifests() ([][]byte, error) {
	return append(deploy.Manifests(), deploy.JobManifests()...), nil
}

// waitingController imitates Volcano's controller: it creates a Job's PodGroup, and the Job's pods
// when the group has left the phase Pending.
type waitingController struct {
	*testing.T
	cluster *demo.Cluster
	objects dynamic.Interface
}

func (w *waitingController) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// submit creates a Job with that many pods and CPUs per pod, and its PodGroup.
func (w *waitingController) submit(name string, pods, cpus int64) {
	w.Helper()
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": batch.GroupVersion.String(), "kind": "Job", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"schedulerName": "volcano", "minAvailable": pods, "tasks": []any{map[string]any{
			"name": "worker", "replicas": pods, "topologyPolicy": "single-numa-node",
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "main", "image": "worker", "resources": map[string]any{"limits": map[string]any{"cpu": fmt.Sprint(cpus), "memory": "1Gi"}},
			}}}},
		}}},
	}}
	job, err := w.objects.Resource(batch.Jobs).Namespace(metav1.NamespaceDefault).Create(w.Context(), job, metav1.CreateOptions{})
	w.must(err)
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": volcano.GroupVersion.String(), "kind": "PodGroup", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"minMember": pods, "minResources": map[string]any{"cpu": fmt.Sprint(pods * cpus), "memory": fmt.Sprintf("%dGi", pods)}},
	}}
	group.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(job, batch.GroupVersion.WithKind("Job"))})
	_, err = w.objects.Resource(volcano.PodGroups).Namespace(metav1.NamespaceDefault).Create(w.Context(), group, metav1.CreateOptions{})
	w.must(err)
}

// phase returns the phase of a Job's PodGroup.
func (w *waitingController) phase(name string) string {
	w.Helper()
	group, err := w.objects.Resource(volcano.PodGroups).Namespace(metav1.NamespaceDefault).Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	phase, _, _ := unstructured.NestedString(group.Object, "status", "phase")
	return phase
}

func (w *waitingController) awaitPhase(name string, want volcano.PodGroupPhase) {
	w.Helper()
	eventually(w.T, fmt.Sprintf("PodGroup %s is %s", name, want), func() error {
		if phase := w.phase(name); phase != string(want) {
			return fmt.Errorf("it is %q", phase)
		}
		return nil
	})
}

// makePods creates the pods that the controller held back.
func (w *waitingController) makePods(name string, pods, cpus int64) {
	w.Helper()
	for i := range pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s-worker-%d", name, i),
			Labels:      map[string]string{batch.JobNameKey: name},
			Annotations: map[string]string{volcano.GroupNameAnnotation: name, "volcano.sh/task-spec": "worker", "volcano.sh/numa-topology-policy": "single-numa-node"},
		}}
		p.Spec.SchedulerName = "volcano"
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "worker", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}}}}
		_, err := w.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(w.Context(), p, metav1.CreateOptions{})
		w.must(err)
	}
}

// TestAControllerThatWaits: Volcano's controller creates a Job's pods when its PodGroup has left
// the phase Pending. The scheduler lets a group in when its resources are free. The pods then run.
func TestAControllerThatWaits(t *testing.T) {
	t.Parallel()
	c := startPlayground(t, besideVolcano{demo.Berth{Names: demo.SchedulerNames}}, policyNode(t, "single-numa-node"))
	objects, err := dynamic.NewForConfig(c.ControlPlane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	w := &waitingController{t, c, objects}
	w.submit("first", 2, 10)
	w.awaitPhase("first", volcano.PodGroupInqueue)
	w.makePods("first", 2, 10)
	w.awaitPhase("first", volcano.PodGroupRunning)

	w.submit("large", 2, 16)
	w.submit("small", 2, 4)
	w.awaitPhase("small", volcano.PodGroupInqueue)
	if phase := w.phase("large"); phase != "" && phase != string(volcano.PodGroupPending) {
		t.Errorf("PodGroup large is %s, and 32 CPUs are not free", phase)
	}
	err = c.Client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: batch.JobNameKey + "=first"})
	w.must(err)
	w.awaitPhase("large", volcano.PodGroupInqueue)
	w.makePods("large", 2, 16)
	w.awaitPhase("large", volcano.PodGroupRunning)
	w.makePods("small", 2, 4)
	w.awaitPhase("small", volcano.PodGroupRunning)
}
