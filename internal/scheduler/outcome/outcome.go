package outcome

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// outcome is the result of an attempt to place a pod.
type outcome struct {
	ref        klog.ObjectRef
	uid        types.UID
	condition  *corev1.PodCondition
	nominating *fwk.NominatingInfo
	// event writes an event about the attempt. It is nil if there is no event to write.
	event func()
	// tries is the number of failed writes.
	tries int
}

// follow copies fields from the earlier outcome if this outcome does not set them.
func (o *outcome) follow(was *outcome) {
	if o.condition == nil {
		o.condition = was.condition
	}
	if o.nominating.Mode() == fwk.ModeNoop {
		o.nominating = was.nominating
	}
}

// write writes the event of the outcome, and then the outcome into the pod unless the pod has it
// already. It does nothing if the watch shows that the pod is bound or gone. It returns an error if
// another try may help.
func (w *Writer) write(ctx context.Context, o *outcome) error {
	pod, err := w.Pods.Pods(o.ref.Namespace).Get(o.ref.Name)
	if err != nil || pod.UID != o.uid || pod.Spec.NodeName != "" {
		return nil
	}
	if o.event != nil {
		o.event()
		o.event = nil
	}
	patch, err := o.patch(pod, metav1.NewTime(w.Clock.Now()))
	if err != nil || patch == nil {
		return err
	}
	_, err = w.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// patch returns a strategic merge patch with the outcome for this version of the pod, or nil if the
// pod already has the outcome.
func (o *outcome) patch(pod *corev1.Pod, now metav1.Time) ([]byte, error) {
	status := map[string]any{}
	if c := o.changed(pod, now); c != nil {
		status["conditions"] = []corev1.PodCondition{*c}
	}
	if n := o.nominating; n.Mode() == fwk.ModeOverride && n.NominatedNodeName != pod.Status.NominatedNodeName {
		status["nominatedNodeName"] = n.NominatedNodeName
	}
	if len(status) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion}, "status": status})
}

// changed returns the condition to write, or nil if the pod already has it. LastTransitionTime
// changes only when the status does. A new ObservedGeneration does not count as a change;
// kube-scheduler does the same (podutil.UpdatePodCondition).
func (o *outcome) changed(pod *corev1.Pod, now metav1.Time) *corev1.PodCondition {
	if o.condition == nil {
		return nil
	}
	c := *o.condition
	c.LastTransitionTime = now
	i := slices.IndexFunc(pod.Status.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
	if i < 0 {
		return &c
	}
	have := &pod.Status.Conditions[i]
	if have.Status == c.Status {
		c.LastTransitionTime = have.LastTransitionTime
		if have.Reason == c.Reason && have.Message == c.Message {
			return nil
		}
	}
	return &c
}
