package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

const (
	// patience is how long a step of a case may take.
	patience = 4 * time.Minute
	// little is the patience with cases that do not run according to the documentation.
	little = 20 * time.Second
	tick   = 200 * time.Millisecond
)

// running is a case in progress.
type running struct {
	*cluster
	*testCase
	namespace string
}

// until waits until wrong returns nil. If that takes too long, it returns wrong's last error.
func (r *running) until(ctx context.Context, wrong func(context.Context) error) error {
	var last error
	limit := patience
	if r.testCase != nil && documented[r.name] != "" {
		limit = little
	}
	err := wait.PollUntilContextTimeout(ctx, tick, limit, true, func(ctx context.Context) (bool, error) {
		last = wrong(ctx)
		return last == nil, r.Ended()
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// seen are the phases that the Job went through.
func (r *running) seen() []batch.JobPhase {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.phases[r.namespace])
}

// theJob reads the Job.
func (r *running) theJob(ctx context.Context) (*unstructured.Unstructured, error) {
	return r.dynamic.Resource(batch.Jobs).Namespace(r.namespace).Get(ctx, r.job, metav1.GetOptions{})
}

// pods returns the Job's pods, except terminating ones.
func (r *running) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := r.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: batch.JobNameKey + "=" + r.job})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// podsRun returns an error if fewer or more pods run than the Job's tasks have replicas. Pods that
// succeeded count.
func (r *running) podsRun(ctx context.Context) error {
	job, err := r.theJob(ctx)
	if err != nil {
		return err
	}
	want := int64(0)
	tasks, _, _ := unstructured.NestedSlice(job.Object, "spec", "tasks")
	for _, t := range tasks {
		n, _, _ := unstructured.NestedInt64(t.(map[string]any), "replicas")
		want += n
	}
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	have := int64(0)
	for i := range pods {
		if phase := pods[i].Status.Phase; phase == corev1.PodRunning || phase == corev1.PodSucceeded {
			have++
		}
	}
	if have != want || int64(len(pods)) != want {
		return fmt.Errorf("%d of %d pods run: want %d", have, len(pods), want)
	}
	return nil
}

func (r *running) eachPod(ctx context.Context, check func(*corev1.Pod) error) error {
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		if err := check(&pods[i]); err != nil {
			return fmt.Errorf("pod %s: %w", pods[i].Name, err)
		}
	}
	return nil
}

// describe describes the current state for people.
func (r *running) describe(ctx context.Context) string {
	var out []string
	if job, err := r.theJob(ctx); err == nil {
		state, _, _ := unstructured.NestedMap(job.Object, "status", "state")
		out = append(out, fmt.Sprint("Job: ", state["phase"], " ", state["reason"], " ", state["message"]))
	}
	groups, err := r.dynamic.Resource(volcano.PodGroups).Namespace(r.namespace).List(ctx, metav1.ListOptions{})
	for i := 0; err == nil && i < len(groups.Items); i++ {
		phase, _, _ := unstructured.NestedString(groups.Items[i].Object, "status", "phase")
		out = append(out, "PodGroup: "+phase)
	}
	pods, err := r.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
	for i := 0; err == nil && i < len(pods.Items); i++ {
		out = append(out, podInWords(&pods.Items[i]))
	}
	events, err := r.Client.CoreV1().Events(r.namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning"})
	for i := 0; err == nil && i < len(events.Items); i++ {
		e := &events.Items[i]
		out = append(out, e.InvolvedObject.Kind+" "+e.InvolvedObject.Name+": "+e.Reason+": "+e.Message)
	}
	const most = 24
	return strings.Join(out[:min(most, len(out))], "; ")
}

func podInWords(p *corev1.Pod) string {
	text := "pod " + p.Name + " " + string(p.Status.Phase)
	if c := wire.Unscheduled(p); c.Type != "" {
		text += ": " + c.Message
	}
	for i := range p.Status.ContainerStatuses {
		if w := p.Status.ContainerStatuses[i].State.Waiting; w != nil {
			text += ": " + w.Reason + " " + w.Message
		}
	}
	return text
}
