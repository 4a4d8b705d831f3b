package agent

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// Pods may be as large as the API server allows, and any user can bind many of them to a node by
// its name (spec.nodeName). The agent keeps only the parts of a pod that its report needs.

// Limits of the kept parts of a pod. Ordinary pods do not reach them.
const (
	maxKeptContainers = 1024
	maxKeptResources  = 64  // extended resources of a container
	maxKeptText       = 256 // bytes of an image name, a message, or a UID
)

// trimmed returns the kept parts of a pod. Within the limits, factsOf returns the same facts for
// the trimmed pod, except for the images and devices of an ended pod. It is a cache.TransformFunc
// for an informer. Objects that are not pods do not change.
func trimmed(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, Annotations: keptAnnotations(pod),
	}}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	out.Spec.NodeName, out.Spec.ServiceAccountName = pod.Spec.NodeName, pod.Spec.ServiceAccountName
	out.Spec.InitContainers = keptContainers(pod.Spec.InitContainers, wire.Ended(pod))
	out.Spec.Containers = keptContainers(pod.Spec.Containers, wire.Ended(pod))
	out.Status.Phase, out.Status.StartTime, out.Status.Message = pod.Status.Phase, pod.Status.StartTime, bounded(pod.Status.Message)
	out.Status.InitContainerStatuses = keptStatuses(pod.Status.InitContainerStatuses)
	out.Status.ContainerStatuses = keptStatuses(pod.Status.ContainerStatuses)
	return out, nil
}

// keptAnnotations returns the placement, which only the scheduler writes, and the name of the
// mirrored static pod.
func keptAnnotations(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	if text, ok := pod.Annotations[wire.PlacementAnnotation]; ok && len(text) <= wire.MaxPlacementBytes {
		out[wire.PlacementAnnotation] = text
	}
	if text := pod.Annotations[corev1.MirrorPodAnnotationKey]; text != "" && len(text) <= maxKeptText {
		out[corev1.MirrorPodAnnotationKey] = text
	}
	return out
}

// keptContainers returns the names and restart policies of containers. If the pod has not ended, it
// also returns their image names and extended resources.
func keptContainers(list []corev1.Container, ended bool) []corev1.Container {
	out := make([]corev1.Container, 0, min(len(list), maxKeptContainers))
	for i := range list[:cap(out)] {
		c := &list[i]
		kept := corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy}
		if !ended {
			kept.Image = bounded(c.Image[strings.LastIndex(c.Image, "/")+1:])
			kept.Resources.Limits, kept.Resources.Requests = keptResources(c.Resources.Limits), keptResources(c.Resources.Requests)
		}
		out = append(out, kept)
	}
	return out
}

func keptResources(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		if wire.IsExtended(name) && len(out) < maxKeptResources {
			out[name] = q
		}
	}
	return out
}

// keptStatuses returns statuses that show only which containers have started.
func keptStatuses(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, 0, min(len(list), maxKeptContainers))
	for i := range list[:cap(out)] {
		s := corev1.ContainerStatus{Name: list[i].Name}
		if ran(list[i]) {
			s.RestartCount = 1
		}
		out = append(out, s)
	}
	return out
}

// bounded returns the first maxKeptText bytes of a text.
func bounded(text string) string {
	if len(text) <= maxKeptText {
		return text
	}
	return strings.ToValidUTF8(text[:maxKeptText], "")
}

func (a *agent) trim() error {
	if err := a.pods.SetTransform(trimmed); err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	return nil
}
