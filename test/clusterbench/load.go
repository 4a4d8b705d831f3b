package main

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// Kinds of pods.
const (
	// loadOrdinary pods are Burstable: their kubelet pins nothing for them.
	loadOrdinary = "ordinary"
	// loadPinned pods are Guaranteed with whole CPUs.
	loadPinned = "pinned"
	// loadGangs are the same pods, in gangs of gangSize.
	loadGangs = "gangs"
)

// gangSize is the number of pods in a gang of loadGangs.
const gangSize = 16

// podNamespace is the namespace of all pods.
const podNamespace = "load"

// pinnedSizes are the CPUs of pinned pods, in turn.
var pinnedSizes = []int64{2, 4, 1, 8, 4, 2, 6, 4}

// containerName is the name of each pod's only container.
const containerName = "main"

// newPod returns the i-th pod of a load.
func newPod(load string, i int) *corev1.Pod {
	var r corev1.ResourceRequirements
	if load != loadOrdinary {
		r.Limits = amounts(1000*pinnedSizes[i%len(pinnedSizes)], 512<<20)
		r.Requests = r.Limits
	} else {
		r.Requests = amounts(100, 200<<20) // as in the scheduler's own benchmark, SchedulingBasic
	}
	pod := podOf(fmt.Sprintf("%s-%05d", load, i), r)
	if load == loadGangs {
		pod.Annotations = map[string]string{
			wire.GangAnnotation: fmt.Sprintf("gang-%05d", i/gangSize), wire.GangMinimumAnnotation: strconv.Itoa(gangSize),
		}
	}
	return pod
}

func amounts(milliCPU, memory int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
}

func podOf(name string, r corev1.ResourceRequirements) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: podNamespace, Labels: map[string]string{"app": "load"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: containerName, Image: "registry.example/load:1", Resources: r}}},
	}
}

// apps is the number of ReplicaSets. A Service selects the pods of each.
const apps = 100

// own makes a ReplicaSet the owner of a pod, in turn.
func own(pod *corev1.Pod, i int) {
	app := fmt.Sprint("app-", i%apps)
	pod.Labels = map[string]string{"app": app}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID(app), Controller: new(true)}}
}

// service selects the pods of the i-th ReplicaSet.
func service(i int) *corev1.Service {
	app := fmt.Sprint("app-", i)
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: podNamespace}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": app},
	}}
}

// replicaSet returns the i-th ReplicaSet. No controller creates pods for it.
func replicaSet(i int) *appsv1.ReplicaSet {
	app := fmt.Sprint("app-", i)
	labels := map[string]string{"app": app}
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: podNamespace}, Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod(loadPinned, i).Spec},
	}}
}
