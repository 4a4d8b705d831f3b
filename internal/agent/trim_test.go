package agent

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// padded returns a pod that a tenant has made large. The agent needs only little of it.
func padded(w *world, phase corev1.PodPhase) *corev1.Pod {
	pod := w.placed("a", "2-3", wire.Placement{Authority: placement.AuthorityBerth, Koordlet: true})
	always := corev1.ContainerRestartPolicyAlways
	pod.Labels = map[string]string{"app": "x"}
	pod.Annotations["pad"] = strings.Repeat("x", 200<<10)
	pod.Annotations[wire.KoordinatorStatusAnnotation] = strings.Repeat("y", 10<<10)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "other"}, {Kind: "DaemonSet", Name: koordlet, Controller: new(true)}}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f":"` + strings.Repeat("z", 200<<10) + `"}`)}}
	pod.Spec.ServiceAccountName = koordlet
	pod.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: &always}, {Name: "init"}}
	c := &pod.Spec.Containers[0]
	c.Image = "registry.example.com/x/dracpu:v1"
	c.Env = []corev1.EnvVar{{Name: "PAD", Value: strings.Repeat("e", 400<<10)}}
	c.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("2"), "x.y/gpu": resource.MustParse("1")}
	c.Resources.Requests = c.Resources.Limits.DeepCopy()
	pod.Status.Phase, pod.Status.StartTime = phase, &metav1.Time{Time: w.clock}
	pod.Status.Message = "Pod was rejected: " + strings.Repeat("m", 100<<10)
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "side", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ImageID: strings.Repeat("i", 1000)}}
	return pod
}

// TestTrimmed: the reduced pod has the same facts as the pod, and is small, whatever the pod's
// owner has written into it.
func TestTrimmed(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed} {
		pod := padded(newWorld(t), phase)
		kept, err := trimmed(pod)
		if err != nil {
			t.Fatal(err)
		}
		small := kept.(*corev1.Pod)
		want, got := factsOf(pod, DefaultRivals()), factsOf(small, DefaultRivals())
		if phase == corev1.PodFailed { // its requests do not matter any more
			want.looksLike, want.containers[2].devices = "", nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: facts\n%+v\nwant\n%+v", phase, got, want)
		}
		if asks(small, map[string]bool{"x.y/gpu": true}) != (phase == corev1.PodRunning) || wire.Ended(small) != wire.Ended(pod) {
			t.Errorf("%s: it is not known what the pod asks for", phase)
		}
		before, after := size(t, pod), size(t, small)
		if after > 4<<10 {
			t.Errorf("%s: %d of %d bytes are kept", phase, after, before)
		}
	}
	if other, err := trimmed("no pod"); err != nil || other != "no pod" {
		t.Errorf("%v, %v", other, err)
	}
}

// TestTrimmedIsBounded: the reduced pod is small, even if the pod has as many containers and
// resources as an object can have.
func TestTrimmedIsBounded(t *testing.T) {
	pod := newWorld(t).pod("a", corev1.PodRunning)
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: strings.Repeat("u", 200<<10)}
	for i := range 10_000 {
		c := corev1.Container{Name: fmt.Sprint("c", i), Image: "a/" + strings.Repeat("ä", 200), Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}
		for j := range 3 {
			c.Resources.Limits[corev1.ResourceName(fmt.Sprintf("x.y/r%d", j))] = resource.MustParse("1")
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name})
	}
	kept, err := trimmed(pod)
	if err != nil {
		t.Fatal(err)
	}
	small := kept.(*corev1.Pod)
	if n := len(small.Spec.Containers); n != maxKeptContainers || len(small.Status.ContainerStatuses) != maxKeptContainers || size(t, small) > 1<<20 {
		t.Errorf("%d containers, %d bytes", n, size(t, small))
	}
	if factsOf(small, nil).uid != "a" {
		t.Error("a UID that is none is believed")
	}
}

func size(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}
