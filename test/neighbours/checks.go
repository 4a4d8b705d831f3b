package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// checks are what EXPECT.tsv says beside phases, by case. Each says what is missing.
var checks = map[string]func(context.Context, *running) error{
	"jp01": func(ctx context.Context, r *running) error {
		if _, err := r.Client.CoreV1().ConfigMaps(r.namespace).Get(ctx, r.job+"-svc", metav1.GetOptions{}); err != nil {
			return err
		}
		return r.eachPod(ctx, func(p *corev1.Pod) error {
			if !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == r.job+"-svc" }) {
				return errors.New("no volume with its hosts")
			}
			return nil
		})
	},
	"jp03": func(ctx context.Context, r *running) error {
		_, err := r.Client.NetworkingV1().NetworkPolicies(r.namespace).Get(ctx, r.job, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("NetworkPolicy %s: got %w, want that it is not found", r.job, err)
		}
		return nil
	},
	"jp05": checkAllPlugins,
	"rs01": func(ctx context.Context, r *running) error {
		pods, err := r.pods(ctx)
		if err == nil && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }) {
			err = errors.New("no failed pod is kept")
		}
		return err
	},
	"vo01": func(ctx context.Context, r *running) error {
		list, err := r.Client.CoreV1().PersistentVolumeClaims(r.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(list.Items, func(c corev1.PersistentVolumeClaim) bool { return strings.HasPrefix(c.Name, r.job) }) {
			err = fmt.Errorf("%d PersistentVolumeClaims, none of the Job's", len(list.Items))
		}
		return err
	},
}

// checkAllPlugins looks for the key of the ssh plugin and the variable of env.
func checkAllPlugins(ctx context.Context, r *running) error {
	secrets, err := r.Client.CoreV1().Secrets(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(secrets.Items, func(s corev1.Secret) bool { return strings.HasPrefix(s.Name, r.job) && len(s.Data) > 0 }) {
		return errors.New("no Secret with keys")
	}
	return r.eachPod(ctx, func(p *corev1.Pod) error {
		if !slices.ContainsFunc(p.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "VC_TASK_INDEX" }) {
			return errors.New("no variable VC_TASK_INDEX")
		}
		return nil
	})
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

// describe says how things stand, for people.
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
