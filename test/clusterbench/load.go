package main

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// gangSize is how many pods of loadGangs start together.
const gangSize = 16

// podNamespace is where all pods are.
const podNamespace = "load"

// pinnedSizes are the CPUs of pinned pods, in turn.
var pinnedSizes = []int64{2, 4, 1, 8, 4, 2, 6, 4}

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
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/load:1", Resources: r}}},
	}
}

// createPods creates count pods of the load.
func (b *bench) createPods(load string, count int) error {
	return each(b.ctx, 32, count, func(ctx context.Context, i int) error {
		_, err := b.plane.core.CoreV1().Pods(podNamespace).Create(ctx, newPod(load, i), metav1.CreateOptions{})
		return err
	})
}

// deletePods deletes every pod at once, without the kubelets' consent, and what was said of them,
// and waits until the nodes have noticed.
func (b *bench) deletePods() error {
	pods := b.plane.core.CoreV1().Pods(podNamespace)
	list, err := pods.List(b.ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	err = each(b.ctx, 32, len(list.Items), func(ctx context.Context, i int) error {
		err := pods.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	// Events live for an hour: the database would grow from run to run.
	events := b.plane.core.CoreV1().Events(podNamespace)
	if err := events.DeleteCollection(b.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete the events: %w", err)
	}
	return b.fleet.quiet(b.ctx, 0)
}
