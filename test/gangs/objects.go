package main

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/trial"
)

// gangLabel of a pod names its gang, for observers.
const gangLabel = "gangs.test/gang"

// pod makes a Guaranteed pod that asks for exclusive CPUs.
func (m *Member) pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	*p.Spec.TerminationGracePeriodSeconds = 1
	p.Spec.Containers = []corev1.Container{container("main", "app:1", m.CPUs, m.MemoryMi)}
	if m.Init > 0 {
		p.Spec.InitContainers = []corev1.Container{container("init", hollow.ExitImage(0), m.Init, m.MemoryMi)}
	}
	return p
}

func container(name, image string, cpus, memoryMi int64) corev1.Container {
	return corev1.Container{Name: name, Image: image, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memoryMi<<20, resource.BinarySI),
	}}}
}

// member makes a pod of the gang.
func (g *Gang) member(m *Member, name string) *corev1.Pod {
	p := m.pod(name)
	p.Labels[gangLabel] = g.Name
	if g.Urgent {
		p.Spec.PriorityClassName = trial.Urgent
	}
	switch g.Source {
	case wire.GangOfPods:
		p.Annotations[wire.GangAnnotation] = g.Name
		p.Annotations[wire.GangMinimumAnnotation] = strconv.Itoa(g.Minimum)
	case wire.GangOfVolcano:
		p.Annotations[volcano.GroupNameAnnotation] = g.Name
		p.Annotations[volcano.TaskSpecAnnotation] = m.Task
	case wire.GangOfSigs:
		p.Labels[sigs.PodGroupLabel] = g.Name
	}
	return p
}

// object returns the gang's object with its resource in the API; nil without one.
func (g *Gang) object() (*unstructured.Unstructured, schema.GroupVersionResource) {
	spec := map[string]any{"minMember": int64(g.Minimum)}
	var where schema.GroupVersionResource
	switch g.Source {
	case wire.GangOfVolcano:
		where = volcano.PodGroups
		if g.Tasks != nil {
			tasks := map[string]any{}
			for task, n := range g.Tasks {
				tasks[task] = int64(n)
			}
			spec["minTaskMember"] = tasks
		}
		if g.Resources > 0 {
			spec["minResources"] = map[string]any{"cpu": fmt.Sprint(g.Resources)}
		}
	case wire.GangOfSigs:
		where = sigs.PodGroups
		if g.Timeout > 0 {
			spec["scheduleTimeoutSeconds"] = int64(g.Timeout.Seconds())
		}
	default:
		return nil, where
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": where.GroupVersion().String(), "kind": "PodGroup", "metadata": map[string]any{"name": g.Name, "namespace": namespace}, "spec": spec,
	}}, where
}
