package main

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/tenant"
)

// PodPlan describes a pod that the driver will create.
type PodPlan struct {
	Name string
	// CPUs are the CPUs of its containers; Shared pods are not pinned and ask for half a CPU.
	CPUs     []int64
	Shared   bool
	MemoryMi int64
	GPUs     int64
	// Node: the pod is created with this node, without any scheduler, like a static pod. Rival: the
	// other scheduler places the pod.
	Node  string
	Rival bool
	// Ends is how long its containers run before they exit. With 0 they run until they are stopped.
	Ends time.Duration
	// Gang is the name of its gang, "" for none. Minimum is how many pods of the gang start
	// together. Group means that a PodGroup declares the gang.
	Gang    string
	Minimum int
	Group   bool
}

// foreignLabel marks pods that do not go through Berth's scheduler.
const foreignLabel = "foreign"

// gracePeriod of pods, in seconds. It is longer than stopTime, so that no container is killed.
const gracePeriod = 5

// object returns the pod as an API object.
func (p *PodPlan) object() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(gracePeriod))},
	}
	pod.Spec.NodeName = p.Node
	if p.Rival {
		pod.Spec.SchedulerName = rivalName
	}
	if p.foreign() {
		pod.Labels = map[string]string{foreignLabel: "true"}
	}
	if p.Gang != "" {
		p.join(pod)
	}
	image := "berth.dev/chaos:1"
	if p.Ends > 0 {
		image, pod.Spec.RestartPolicy = hollow.ExitImage(p.Ends), corev1.RestartPolicyNever
	}
	for i := range p.CPUs {
		list := p.amounts(i)
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: image, Resources: corev1.ResourceRequirements{Requests: list, Limits: list},
		})
	}
	return pod
}

// amounts returns the requests of a container; the first has the GPUs.
func (p *PodPlan) amounts(i int) corev1.ResourceList {
	milli := 1000 * p.CPUs[i]
	if p.Shared {
		milli = 500
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(p.MemoryMi<<20, resource.BinarySI),
	}
	if p.GPUs > 0 && i == 0 {
		list[gpuResource] = *resource.NewQuantity(p.GPUs, resource.DecimalSI)
	}
	return list
}

// foreign reports whether the pod gets its node without Berth's scheduler.
func (p *PodPlan) foreign() bool { return p.Rival || p.Node != "" }

// Labels of members, for observers.
const (
	gangLabel    = "chaos.test/gang"
	minimumLabel = "chaos.test/minimum"
)

// join makes the pod a member of its gang.
func (p *PodPlan) join(pod *corev1.Pod) {
	minimum := strconv.Itoa(p.Minimum)
	pod.Labels = map[string]string{gangLabel: p.Gang, minimumLabel: minimum}
	if p.Group {
		pod.Labels[sigs.PodGroupLabel] = p.Gang
		return
	}
	pod.Annotations = map[string]string{wire.GangAnnotation: p.Gang, wire.GangMinimumAnnotation: minimum}
}

// group is the PodGroup of the pod's gang.
func (p *PodPlan) group() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sigs.GroupVersion.String(), "kind": "PodGroup", "metadata": map[string]any{"name": p.Gang, "namespace": metav1.NamespaceDefault},
		"spec": map[string]any{"minMember": int64(p.Minimum)},
	}}
}

// isForeign reports whether a new pod gets its node without Berth's scheduler: its label says so,
// or the tenant named its node.
func isForeign(pod *corev1.Pod) bool {
	return pod.Labels[foreignLabel] != "" || pod.Namespace == tenant.Namespace && pod.Spec.NodeName != "" && !wire.HasPlacement(pod)
}
